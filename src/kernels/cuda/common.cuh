// What every kernel file begins with: types, conversions, reductions in a fixed order, and the macro that names kernels.
//
// A kernel's T is what activations, their gradients and large weights are stored in: f32, bf16 or f16. Always f32 are
// row statistics, losses, moments, scales, norm weights, biases, adapters and the gradients of parameters; sums are f32
// or wider, and the CPU form rounds where the kernel does. Nothing is added atomically, and no sum depends on the number
// of blocks: the same inputs give the same bits.
//
// To be compiled without fusing multiplications and additions (`--fmad=false`), as the CPU forms are: then the kernels
// agree with them to the bit wherever sums run in the same order. Where a fused one is meant, `fmaf` says so.
//
// Neither CUDA's headers nor C's are needed: a machine that runs this has a driver and NVRTC, but may have no toolkit.
#pragma once

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef int i32;
typedef long long i64;
typedef float f32;
typedef double f64;

struct bf16 {
    u16 bits;
};

struct f16 {
    u16 bits;
};

#ifdef __CUDACC__
__device__ inline f32 half_to_float(u16 bits) {
    f32 x;
    asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(bits));
    return x;
}

__device__ inline u16 float_to_half(f32 x) {
    u16 bits;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(x));
    return bits;
}

#define SHARED(TYPE, NAME, DIMS) __shared__ TYPE NAME DIMS
#define DYNAMIC_SHARED(TYPE, NAME) extern __shared__ TYPE NAME[]

#define EXPORT_AS(NAME, KERNEL, TYPE, PARAMS, ARGS)                                                                    \
    namespace as_##TYPE {                                                                                              \
    typedef TYPE T;                                                                                                    \
    extern "C" __global__ void NAME##_##TYPE PARAMS {                                                                  \
        KERNEL ARGS;                                                                                                   \
    }                                                                                                                  \
    }
#endif

// Names a template of T as three kernels: NAME_f32, NAME_bf16 and NAME_f16.
#define EXPORT(NAME, PARAMS, ARGS)                                                                                     \
    EXPORT_AS(NAME, NAME<f32>, f32, PARAMS, ARGS)                                                                      \
    EXPORT_AS(NAME, NAME<bf16>, bf16, PARAMS, ARGS)                                                                    \
    EXPORT_AS(NAME, NAME<f16>, f16, PARAMS, ARGS)

// Names a kernel that has no T: NAME_f32.
#define EXPORT_F32(NAME, PARAMS, ARGS) EXPORT_AS(NAME, NAME, f32, PARAMS, ARGS)

__device__ inline f32 widen(f32 x) {
    return x;
}

__device__ inline f32 widen(bf16 x) {
    return __uint_as_float((u32)x.bits << 16);
}

__device__ inline f32 widen(f16 x) {
    return half_to_float(x.bits);
}

// To the nearest, ties to even.
template <class T> __device__ inline T narrow(f32 x);

template <> __device__ inline f32 narrow<f32>(f32 x) {
    return x;
}

// In integers, since the instruction for it begins with sm_80. A NaN stays one: its payload must not round away.
template <> __device__ inline bf16 narrow<bf16>(f32 x) {
    u32 bits = __float_as_uint(x);
    u32 rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16;
    bf16 y = {(u16)(x != x ? (bits >> 16) | 0x40 : rounded)};
    return y;
}

template <> __device__ inline f16 narrow<f16>(f32 x) {
    f16 y = {float_to_half(x)};
    return y;
}

// i runs over this thread's share of 0 … n − 1, however many blocks there are.
#define EACH(i, n)                                                                                                     \
    for (i64 i = blockIdx.x * (i64)blockDim.x + threadIdx.x; i < (n); i += gridDim.x * (i64)blockDim.x)

enum : u32 { WARP = 32, ALL_LANES = 0xFFFFFFFFu };

__device__ inline u32 lane() {
    return threadIdx.x % WARP;
}

__device__ inline u32 warp() {
    return threadIdx.x / WARP;
}

// The row of a kernel that takes a warp for each.
__device__ inline i64 warp_row() {
    return blockIdx.x * (i64)(blockDim.x / WARP) + warp();
}

// A NaN for b is passed over: it shows in the sum that follows.
template <class A> __device__ inline A larger(A a, A b) {
    return b > a ? b : a;
}

// The sum over a warp, the same in every lane. Lane l takes in lane l + 16, then l + 8, …: pairs as in the CPU forms,
// whose 32 running sums are the lanes here.
template <class A> __device__ inline A warp_sum(A v) {
    for (u32 half = WARP / 2; half > 0; half /= 2) {
        v += __shfl_down_sync(ALL_LANES, v, half);
    }
    return __shfl_sync(ALL_LANES, v, 0);
}

template <class A> __device__ inline A warp_max(A v) {
    for (u32 half = WARP / 2; half > 0; half /= 2) {
        v = larger(v, __shfl_down_sync(ALL_LANES, v, half));
    }
    return __shfl_sync(ALL_LANES, v, 0);
}

// Over a block of whole warps, the same in every thread; warps are taken in order. `room` is a value a warp.
template <class A> __device__ inline A block_sum(A v, A *room) {
    v = warp_sum(v);
    if (lane() == 0) {
        room[warp()] = v;
    }
    __syncthreads();
    v = room[0];
    for (u32 w = 1; w < blockDim.x / WARP; w++) {
        v += room[w];
    }
    __syncthreads();
    return v;
}

template <class A> __device__ inline A block_max(A v, A *room) {
    v = warp_max(v);
    if (lane() == 0) {
        room[warp()] = v;
    }
    __syncthreads();
    v = room[0];
    for (u32 w = 1; w < blockDim.x / WARP; w++) {
        v = larger(v, room[w]);
    }
    __syncthreads();
    return v;
}

__device__ inline f32 infinity() {
    return __uint_as_float(0x7F800000u);
}

__device__ inline bool is_finite(f32 x) {
    return (__float_as_uint(x) & 0x7F800000u) != 0x7F800000u;
}

// eˣ as the CPU's vector loops compute it, to the bit: within 2 ulp over all of f32.
__device__ inline f32 exponential(f32 x) {
    f32 ROUND = 12582912.0f; // 1.5 · 2²³: adding it leaves an integer in the low bits.
    x = x > 89.0f ? 89.0f : x;
    x = x < -104.0f ? -104.0f : x;
    f32 shifted = x * 1.44269504f + ROUND;
    f32 n = shifted - ROUND;
    f32 r = x - n * 0.693359375f - n * -2.12194440e-4f;
    f32 p = 1.98756915e-4f;
    p = p * r + 1.39819995e-3f;
    p = p * r + 8.33345205e-3f;
    p = p * r + 4.16657962e-2f;
    p = p * r + 1.66666657e-1f;
    p = p * r + 0.5f;
    f32 y = p * (r * r) + r + 1.0f;
    // In two factors, since 2ⁿ alone may be no normal number.
    i32 whole = (i32)(__float_as_uint(shifted) - __float_as_uint(ROUND));
    i32 half = whole >> 1;
    return y * __uint_as_float((u32)(half + 127) << 23) * __uint_as_float((u32)(whole - half + 127) << 23);
}
