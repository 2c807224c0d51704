// What must not pass: kernels that are wrong in the ways that the harness is there to find.
#include "common.cuh"

// Reads what a neighbour writes, without waiting for it.
__device__ inline void no_barrier(f32 *y) {
    SHARED(f32, room, [64]);
    room[threadIdx.x] = (f32)threadIdx.x;
    y[threadIdx.x] = room[63 - threadIdx.x];
}
EXPORT_F32(no_barrier, (f32 *y), (y))

// A barrier that half of the block passes by.
__device__ inline void half_a_barrier(f32 *y) {
    if (threadIdx.x < 32) {
        __syncthreads();
    }
    y[threadIdx.x] = 0.0f;
}
EXPORT_F32(half_a_barrier, (f32 *y), (y))

// A sum over a warp, some of whose lanes have left.
__device__ inline void half_a_warp(f32 *y) {
    if (threadIdx.x % WARP < 16) {
        y[threadIdx.x] = warp_sum(1.0f);
    }
}
EXPORT_F32(half_a_warp, (f32 *y), (y))

// One element too far.
__device__ inline void beyond(f32 *y) {
    y[threadIdx.x + 1] = 0.0f;
}
EXPORT_F32(beyond, (f32 *y), (y))

// One element of shared memory too far.
__device__ inline void beyond_shared(f32 *y) {
    SHARED(f32, room, [63]);
    f32 *own = room + threadIdx.x;
    *own = 1.0f;
    y[threadIdx.x] = *own;
}
EXPORT_F32(beyond_shared, (f32 *y), (y))
