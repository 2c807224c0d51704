// Random numbers by place, those of the CPU form: Philox 4x32-10 of a key and an index. A thread makes the four numbers
// that one call gives.
#include "common.cuh"

struct Words {
    u32 w[4];
};

__device__ inline Words philox(u64 key, u64 block) {
    u32 a = (u32)block, b = (u32)(block >> 32), c = 0, d = 0;
    u32 k0 = (u32)key, k1 = (u32)(key >> 32);
    for (u32 round = 0; round < 10; round++) {
        u64 p0 = (u64)0xD2511F53u * a, p1 = (u64)0xCD9E8D57u * c;
        a = (u32)(p1 >> 32) ^ b ^ k0;
        b = (u32)p1;
        c = (u32)(p0 >> 32) ^ d ^ k1;
        d = (u32)p0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    Words words = {{a, b, c, d}};
    return words;
}

// 24 random bits as a number of [0, 1).
__device__ inline f32 unit(u32 word) {
    return (f32)(word >> 8) * (1.0f / 16777216.0f);
}

// yᵢ = lo + (hi − lo) · uniform(i). Launch: any number of threads, one for each four values.
template <class T> __device__ void fill_uniform(T *y, f32 lo, f32 hi, u64 key, i64 n) {
    EACH(block, (n + 3) / 4) {
        Words words = philox(key, (u64)block);
        for (u32 k = 0; k < 4 && 4 * block + k < n; k++) {
            y[4 * block + k] = narrow<T>(lo + (hi - lo) * unit(words.w[k]));
        }
    }
}
EXPORT(fill_uniform, (T *y, f32 lo, f32 hi, u64 key, i64 n), (y, lo, hi, key, n))

// yᵢ = std · normal(i), by Box and Muller's transform in f64. Launch: any number of threads, one for each four values.
template <class T> __device__ void fill_normal(T *y, f32 std, u64 key, i64 n) {
    EACH(block, (n + 3) / 4) {
        Words words = philox(key, (u64)block);
        f32 normal[4];
        for (u32 k = 0; k < 4; k += 2) {
            // (0, 1], so that the logarithm is finite.
            f64 radius = sqrt(-2.0 * log(((f64)words.w[k] + 1.0) / 4294967296.0));
            f64 angle = 6.283185307179586476925 * (f64)words.w[k + 1] / 4294967296.0;
            normal[k] = (f32)(radius * cos(angle));
            normal[k + 1] = (f32)(radius * sin(angle));
        }
        for (u32 k = 0; k < 4 && 4 * block + k < n; k++) {
            y[4 * block + k] = narrow<T>(std * normal[k]);
        }
    }
}
EXPORT(fill_normal, (T *y, f32 std, u64 key, i64 n), (y, std, key, n))

// yᵢ = xᵢ / (1 − p) where uniform(i) ≥ p, else 0; with `adding`, added to what is there.
template <class T> __device__ void drop(T *y, const T *x, f32 p, u64 key, i64 n, bool adding) {
    f32 scale = 1.0f / (1.0f - p);
    EACH(block, (n + 3) / 4) {
        Words words = philox(key, (u64)block);
        for (u32 k = 0; k < 4 && 4 * block + k < n; k++) {
            i64 i = 4 * block + k;
            f32 kept = unit(words.w[k]) >= p ? widen(x[i]) * scale : 0.0f;
            y[i] = narrow<T>(adding ? widen(y[i]) + kept : kept);
        }
    }
}

// yᵢ = xᵢ / (1 − p) where uniform(i) ≥ p, else 0; y may be x. The gradient is the same call on dy with the same key.
// Launch: any number of threads, one for each four values.
template <class T> __device__ void dropout(T *y, const T *x, f32 p, u64 key, i64 n) {
    drop(y, x, p, key, n, false);
}
EXPORT(dropout, (T *y, const T *x, f32 p, u64 key, i64 n), (y, x, p, key, n))

// dropout, added to what is there. Launch: as dropout.
template <class T> __device__ void dropout_add(T *y, const T *x, f32 p, u64 key, i64 n) {
    drop(y, x, p, key, n, true);
}
EXPORT(dropout_add, (T *y, const T *x, f32 p, u64 key, i64 n), (y, x, p, key, n))
