// Rotary position embedding in the half-split convention: element j of a head's first half turns with element j of its
// second half.
#include "common.cuh"

// Turns the heads of a row of x [rows, heads · 2 · half] in place by the angle of the row's position; cos and sin are
// [positions of the table, half]. `sign` is −1 to turn back, which is also the gradient's way. Launch: a block for each
// row.
template <class T>
__device__ void rope(T *x, const f32 *cos, const f32 *sin, const u32 *positions, i32 heads, i32 half, f32 sign) {
    i64 row = blockIdx.x;
    i64 angles = positions[row] * (i64)half;
    x += row * heads * 2 * half;
    for (i32 i = threadIdx.x; i < heads * half; i += blockDim.x) {
        i32 head = i / half, j = i % half;
        T *first = x + (i64)head * 2 * half + j, *second = first + half;
        f32 c = cos[angles + j], s = sign * sin[angles + j];
        f32 a = widen(*first), b = widen(*second);
        *first = narrow<T>(a * c - b * s);
        *second = narrow<T>(b * c + a * s);
    }
}
EXPORT(rope, (T *x, const f32 *cos, const f32 *sin, const u32 *positions, i32 heads, i32 half, f32 sign),
       (x, cos, sin, positions, heads, half, sign))
