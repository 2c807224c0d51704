// 4-bit NormalFloat: values to codes and back, and the scales' own quantising.
#include "dynamic.cuh"

// The sixteen values, and the thresholds between them: those of the CPU form.
__constant__ f32 VALUES[16] = {-1.0f,          -0.69619280f, -0.52507305f, -0.39491750f, -0.28444138f, -0.18477343f,
                               -0.091050036f,  0.0f,         0.07958030f,  0.16093020f,  0.24611230f,  0.33791524f,
                               0.44070983f,    0.56261700f,  0.72295684f,  1.0f};
__constant__ f32 THRESHOLDS[15] = {-0.84809640f,  -0.61063290f, -0.45999527f, -0.33967943f, -0.23460740f,
                                   -0.13791174f,  -0.045525018f, 0.03979015f, 0.12025525f,  0.20352125f,
                                   0.29201376f,   0.38931254f,  0.50166345f,  0.64278690f,  0.86147840f};

// Fills the last byte of an odd tensor.
enum : u32 { ZERO = 7 };
// Scales that share a scale of their own.
enum : u32 { SCALE_BLOCK = 256 };

// The number of thresholds strictly below v.
__device__ inline u32 code_of(f32 v) {
    u32 code = 0;
    for (u32 i = 0; i < 15; i++) {
        code += THRESHOLDS[i] < v;
    }
    return code;
}

// Quantises x [n] in blocks of `block`, an even number: codes [⌈n/2⌉], the first value in the high half of a byte, and
// absmax [⌈n/block⌉]. `bad` becomes 1 where a value is not finite. Launch: whole warps, a warp for each block of values.
template <class T> __device__ void nf4_quantise(u8 *codes, f32 *absmax, u32 *bad, const T *x, i64 n, i64 block) {
    i64 first = warp_row() * block;
    if (first >= n) {
        return;
    }
    i64 count = n - first < block ? n - first : block;
    x += first;
    codes += first / 2;
    // The largest bit pattern without its sign: as floats, a NaN would be lost.
    u32 top = 0;
    for (i64 i = lane(); i < count; i += WARP) {
        top = larger(top, __float_as_uint(widen(x[i])) & 0x7FFFFFFFu);
    }
    f32 scale = __uint_as_float(warp_max(top));
    // The reciprocal of a smaller scale can be infinite.
    f32 inverse = 1.0f / larger(scale, 1e-38f);
    for (i64 i = lane(); 2 * i < count; i += WARP) {
        u32 high = code_of(widen(x[2 * i]) * inverse);
        u32 low = 2 * i + 1 < count ? code_of(widen(x[2 * i + 1]) * inverse) : (u32)ZERO;
        codes[i] = (u8)(high << 4 | low);
    }
    if (lane() == 0) {
        absmax[warp_row()] = scale;
        if (!is_finite(scale)) {
            *bad = 1;
        }
    }
}
EXPORT(nf4_quantise, (u8 *codes, f32 *absmax, u32 *bad, const T *x, i64 n, i64 block),
       (codes, absmax, bad, x, n, block))

struct PlainScale {
    const f32 *absmax;

    __device__ f32 operator()(i64 block) const {
        return absmax[block];
    }
};

struct DoubleScale {
    const u8 *codes;
    const f32 *absmax, *map;
    f32 offset;

    __device__ f32 operator()(i64 block) const {
        return map[codes[block]] * absmax[block / SCALE_BLOCK] + offset;
    }
};

// Eight values, stored as whole vectors where they lie so.
template <class T> struct alignas(16) Eight {
    T v[8];
};

// A thread takes four bytes of codes, which share a scale; the first and the last may lie half outside. Values come from
// shared memory: constant memory serves one address at a time.
template <class T, class Scale>
__device__ void restore(T *y, const u8 *codes, Scale scale, i64 start, i64 n, u32 shift) {
    SHARED(f32, values, [16]);
    if (threadIdx.x < 16) {
        values[threadIdx.x] = VALUES[threadIdx.x];
    }
    __syncthreads();
    i64 end = start + n;
    bool aligned = start % 8 == 0 && (size_t)y % 16 == 0 && (size_t)codes % 4 == 0;
    EACH(i, (end + 7) / 8 - start / 8) {
        i64 first = (start / 8 + i) * 8;
        f32 s = scale(first >> shift);
        if (aligned && first + 8 <= end) {
            u32 word = *(const u32 *)(codes + first / 2);
            Eight<T> eight;
            for (u32 k = 0; k < 8; k++) {
                // The lowest byte comes first, and in it the high half.
                eight.v[k] = narrow<T>(values[word >> (8 * (k / 2) + 4 - k % 2 * 4) & 15] * s);
            }
            *(Eight<T> *)(y + (first - start)) = eight;
        } else {
            for (i64 e = first < start ? start : first; e < end && e < first + 8; e++) {
                y[e - start] = narrow<T>(values[codes[e / 2] >> (4 - e % 2 * 4) & 15] * s);
            }
        }
    }
}

// The values of elements start … start + n − 1 of a tensor in blocks of 2^shift, 8 or more, y [n]. Launch: any number of
// threads, 16 a block or more; one for each eight values begun.
template <class T>
__device__ void nf4_dequantise(T *y, const u8 *codes, const f32 *absmax, i64 start, i64 n, u32 shift) {
    PlainScale scale = {absmax};
    restore(y, codes, scale, start, n, shift);
}
EXPORT(nf4_dequantise, (T *y, const u8 *codes, const f32 *absmax, i64 start, i64 n, u32 shift),
       (y, codes, absmax, start, n, shift))

// The same with doubled scales: map[scales[b]] · absmax[b / 256] + offset. Launch: as nf4_dequantise.
template <class T>
__device__ void nf4_dequantise_double(T *y, const u8 *codes, const u8 *scales, const f32 *absmax, const f32 *map,
                                      f32 offset, i64 start, i64 n, u32 shift) {
    DoubleScale scale = {scales, absmax, map, offset};
    restore(y, codes, scale, start, n, shift);
}
EXPORT(nf4_dequantise_double,
       (T *y, const u8 *codes, const u8 *scales, const f32 *absmax, const f32 *map, f32 offset, i64 start, i64 n,
        u32 shift),
       (y, codes, scales, absmax, map, offset, start, n, shift))

// offset = the mean of n plain scales, in f64 until the end. Launch: whole warps, a single block.
__device__ inline void nf4_offset(f32 *offset, const f32 *plain, i64 n) {
    SHARED(f64, room, [WARP]);
    f64 own = 0.0;
    for (i64 i = threadIdx.x; i < n; i += blockDim.x) {
        own += (f64)plain[i];
    }
    f64 sum = block_sum(own, room);
    if (threadIdx.x == 0) {
        *offset = (f32)(sum / (f64)(n < 1 ? 1 : n));
    }
}
EXPORT_F32(nf4_offset, (f32 *offset, const f32 *plain, i64 n), (offset, plain, n))

// Quantises n plain scales around `offset`: codes [n], absmax [⌈n/256⌉]. Launch: 256 threads, a block for each 256.
__device__ inline void nf4_double(u8 *codes, f32 *absmax, const f32 *plain, const f32 *map, const f32 *offset, i64 n) {
    SHARED(f32, room, [WARP]);
    i64 i = blockIdx.x * (i64)SCALE_BLOCK + threadIdx.x;
    f32 v = i < n ? plain[i] - *offset : 0.0f;
    f32 top = block_max(fabsf(v), room);
    if (threadIdx.x == 0) {
        absmax[blockIdx.x] = top;
    }
    if (i < n) {
        f32 inverse = 1.0f / top;
        codes[i] = top == 0.0f ? 0 : nearest(map, v * inverse);
    }
}
EXPORT_F32(nf4_double, (u8 *codes, f32 *absmax, const f32 *plain, const f32 *map, const f32 *offset, i64 n),
           (codes, absmax, plain, map, offset, n))
