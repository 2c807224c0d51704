// AdamW in 32 and 8 bits, and what decides a step on the device, so that the host need not wait for it.
//
// A step runs: sum_squares of every gradient, begin_step once, then an update of each parameter, and in f16 loss_scale
// last. Gradients of parameters are f32; their sum of squares is also there for other types.
#include "dynamic.cuh"

// What begin_step works out, f32 each. The first eight are torch's scalars, made in f64 and rounded.
enum : u32 {
    KEEP,       // 1 − lr · decay
    BETA1,      // β₁
    TOWARD,     // 1 − β₁
    BETA2,      // β₂
    SQUARE,     // 1 − β₂
    CORRECTION, // √(1 − β₂ᵗ)
    EPS,        // ε
    SIZE,       // −lr / (1 − β₁ᵗ)
    FACTOR,     // by which gradients are multiplied: clipping, and the way back from the loss scale
    NORM,       // of the gradient, before clipping
    FINITE,     // 1 where the step is taken, 0 where the norm is not finite and nothing may change
    STEP_WORDS
};

// Elements of one partial sum: fixed, so that the order of additions is.
enum : u32 { CHUNK = 1 << 16 };

// parts[k] = Σ of the squares of the kth 65536 elements, in f64. Launch: whole warps, a block for each 65536 elements.
template <class T> __device__ void sum_squares(f64 *parts, const T *g, i64 n) {
    SHARED(f64, room, [WARP]);
    i64 first = blockIdx.x * (i64)CHUNK;
    i64 end = first + CHUNK < n ? first + CHUNK : n;
    f64 own = 0.0;
    for (i64 i = first + threadIdx.x; i < end; i += blockDim.x) {
        f64 v = (f64)widen(g[i]);
        own += v * v;
    }
    f64 sum = block_sum(own, room);
    if (threadIdx.x == 0) {
        parts[blockIdx.x] = sum;
    }
}
EXPORT(sum_squares, (f64 *parts, const T *g, i64 n), (parts, g, n))

// From the `count` partial sums of all gradients: the norm, whether it is finite, and the scalars of the update, the
// number of which is updates[0] + 1; that is counted only if the step is taken. `most` is the norm that gradients are
// clipped to, 0 for none; `loss_scale` what the loss was multiplied by, or null. Launch: whole warps, a single block.
__device__ inline void begin_step(f32 *step, u64 *updates, const f64 *parts, i64 count, const f32 *loss_scale, f64 lr,
                                  f64 beta1, f64 beta2, f64 eps, f64 decay, f64 most) {
    SHARED(f64, room, [WARP]);
    f64 own = 0.0;
    for (i64 i = threadIdx.x; i < count; i += blockDim.x) {
        own += parts[i];
    }
    f64 sum = block_sum(own, room);
    if (threadIdx.x != 0) {
        return;
    }
    f64 scale = loss_scale ? (f64)*loss_scale : 1.0;
    f64 norm = sqrt(sum) / scale;
    bool finite = norm - norm == 0.0;
    f64 clip = most > 0.0 && most / (norm + 1e-6) < 1.0 ? most / (norm + 1e-6) : 1.0;
    f64 t = (f64)(*updates + 1);
    step[KEEP] = (f32)(1.0 - lr * decay);
    step[BETA1] = (f32)beta1;
    step[TOWARD] = (f32)(1.0 - beta1);
    step[BETA2] = (f32)beta2;
    step[SQUARE] = (f32)(1.0 - beta2);
    step[CORRECTION] = (f32)sqrt(1.0 - pow(beta2, t));
    step[EPS] = (f32)eps;
    step[SIZE] = (f32)(-(lr / (1.0 - pow(beta1, t))));
    step[FACTOR] = (f32)(clip / scale);
    step[NORM] = (f32)norm;
    step[FINITE] = finite ? 1.0f : 0.0f;
    *updates += finite;
}
EXPORT_F32(begin_step,
           (f32 *step, u64 *updates, const f64 *parts, i64 count, const f32 *loss_scale, f64 lr, f64 beta1, f64 beta2,
            f64 eps, f64 decay, f64 most),
           (step, updates, parts, count, loss_scale, lr, beta1, beta2, eps, decay, most))

// One update of the parameters p [n] with their moments m and v, unless the step is not finite. Launch: any number of
// threads.
template <class T> __device__ void adamw(T *p, f32 *m, f32 *v, const f32 *g, const f32 *step, i64 n) {
    if (step[FINITE] == 0.0f) {
        return;
    }
    EACH(i, n) {
        f32 d = g[i] * step[FACTOR];
        f32 first = m[i] + step[TOWARD] * (d - m[i]);
        f32 second = v[i] * step[BETA2] + step[SQUARE] * d * d;
        m[i] = first;
        v[i] = second;
        p[i] = narrow<T>(widen(p[i]) * step[KEEP] +
                         step[SIZE] * first / (sqrtf(second) / step[CORRECTION] + step[EPS]));
    }
}
EXPORT(adamw, (T *p, f32 *m, f32 *v, const f32 *g, const f32 *step, i64 n), (p, m, v, g, step, n))

// Values that share a scale.
enum : u32 { MOMENT_BLOCK = 256 };

// A block's value as a code of `map`; the scale goes where the block keeps its own.
__device__ inline u8 quantise(const f32 *map, f32 v, f32 *scale, f32 *room) {
    f32 top = block_max(fabsf(v), room);
    if (threadIdx.x == 0) {
        *scale = top;
    }
    return nearest(map, top == 0.0f ? 0.0f : v * (1.0f / top));
}

// As adamw, with moments in 8 bits: codes [n] and a scale for each 256, the first moment in the signed map and the second
// in the unsigned. Launch: 256 threads, a block for each 256 values.
template <class T>
__device__ void adamw8(T *p, u8 *m_codes, f32 *m_scales, u8 *v_codes, f32 *v_scales, const f32 *g, const f32 *step,
                       const f32 *with_sign, const f32 *without, i64 n) {
    if (step[FINITE] == 0.0f) {
        return;
    }
    SHARED(f32, map, [256]);
    SHARED(f32, map2, [256]);
    SHARED(f32, room, [WARP]);
    map[threadIdx.x] = with_sign[threadIdx.x];
    map2[threadIdx.x] = without[threadIdx.x];
    __syncthreads();
    i64 i = blockIdx.x * (i64)MOMENT_BLOCK + threadIdx.x;
    bool inside = i < n;
    f32 m = 0.0f, v = 0.0f;
    if (inside) {
        f32 d = g[i] * step[FACTOR];
        m = map[m_codes[i]] * m_scales[blockIdx.x] * step[BETA1] + step[TOWARD] * d;
        v = map2[v_codes[i]] * v_scales[blockIdx.x] * step[BETA2] + step[SQUARE] * d * d;
        p[i] = narrow<T>(widen(p[i]) * step[KEEP] + step[SIZE] * m / (sqrtf(v) / step[CORRECTION] + step[EPS]));
    }
    // Every scale was read before the first barrier in `quantise`, and is written after it.
    u8 m_code = quantise(map, m, &m_scales[blockIdx.x], room);
    u8 v_code = quantise(map2, v, &v_scales[blockIdx.x], room);
    if (inside) {
        m_codes[i] = m_code;
        v_codes[i] = v_code;
    }
}
EXPORT(adamw8,
       (T *p, u8 *m_codes, f32 *m_scales, u8 *v_codes, f32 *v_scales, const f32 *g, const f32 *step,
        const f32 *with_sign, const f32 *without, i64 n),
       (p, m_codes, m_scales, v_codes, v_scales, g, step, with_sign, without, n))

// g = g / loss scale; `bad` becomes 1 where a result is not finite. For gradients that are to be looked at before a step;
// the step itself divides as it goes. Launch: any number of threads.
template <class T> __device__ void unscale(T *g, u32 *bad, const f32 *loss_scale, i64 n) {
    f32 inverse = 1.0f / *loss_scale;
    EACH(i, n) {
        T v = narrow<T>(widen(g[i]) * inverse);
        g[i] = v;
        if (!is_finite(widen(v))) {
            *bad = 1;
        }
    }
}
EXPORT(unscale, (T *g, u32 *bad, const f32 *loss_scale, i64 n), (g, bad, loss_scale, n))

// The loss scale of the next step: multiplied by `backoff` after a step that was not finite, by `growth` after `interval`
// in a row that were, never above 2²⁴ nor below 1. `good` counts them. Launch: a single thread.
__device__ inline void loss_scale(f32 *scale, u32 *good, const f32 *step, f32 growth, f32 backoff, u32 interval) {
    if (step[FINITE] == 0.0f) {
        *scale = larger(*scale * backoff, 1.0f);
        *good = 0;
    } else if (*good + 1 >= interval) {
        *scale = *scale * growth > 16777216.0f ? 16777216.0f : *scale * growth;
        *good = 0;
    } else {
        *good += 1;
    }
}
EXPORT_F32(loss_scale, (f32 *scale, u32 *good, const f32 *step, f32 growth, f32 backoff, u32 interval),
           (scale, good, step, growth, backoff, interval))
