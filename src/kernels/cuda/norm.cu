// Root-mean-square norm: y = w · (x · rstd), rstd = 1/√(mean(x²) + eps), row by row.
#include "columns.cuh"

// Normalises the rows of x [rows, width] into y and keeps rstd [rows]. Launch: whole warps, a warp for each row.
template <class T>
__device__ void rms_norm(T *y, f32 *rstd, const T *x, const f32 *w, i64 rows, i64 width, f32 eps) {
    i64 row = warp_row();
    if (row >= rows) {
        return;
    }
    x += row * width;
    y += row * width;
    f32 squares = 0.0f;
    for (i64 i = lane(); i < width; i += WARP) {
        f32 v = widen(x[i]);
        squares += v * v;
    }
    f32 r = 1.0f / sqrtf(warp_sum(squares) / (f32)width + eps);
    if (lane() == 0) {
        rstd[row] = r;
    }
    for (i64 i = lane(); i < width; i += WARP) {
        y[i] = narrow<T>(w[i] * (widen(x[i]) * r));
    }
}
EXPORT(rms_norm, (T *y, f32 *rstd, const T *x, const f32 *w, i64 rows, i64 width, f32 eps),
       (y, rstd, x, w, rows, width, eps))

// y of rms_norm once more, to the bit, from the rstd it kept. Launch: a block for each row.
template <class T> __device__ void rms_norm_apply(T *y, const T *x, const f32 *rstd, const f32 *w, i64 width) {
    i64 at = blockIdx.x * width;
    f32 r = rstd[blockIdx.x];
    for (i64 i = threadIdx.x; i < width; i += blockDim.x) {
        y[at + i] = narrow<T>(w[i] * (widen(x[at + i]) * r));
    }
}
EXPORT(rms_norm_apply, (T *y, const T *x, const f32 *rstd, const f32 *w, i64 width), (y, x, rstd, w, width))

// dx += rstd · (w·dy − x · rstd²/width · Σ w·dy·x). Launch: whole warps, a warp for each row.
template <class T>
__device__ void rms_norm_backward(T *dx, const T *dy, const T *x, const f32 *rstd, const f32 *w, i64 rows, i64 width) {
    i64 row = warp_row();
    if (row >= rows) {
        return;
    }
    dx += row * width;
    dy += row * width;
    x += row * width;
    f32 dot = 0.0f;
    for (i64 i = lane(); i < width; i += WARP) {
        dot += w[i] * widen(dy[i]) * widen(x[i]);
    }
    f32 r = rstd[row];
    f32 pull = warp_sum(dot) * (r * r / (f32)width);
    for (i64 i = lane(); i < width; i += WARP) {
        dx[i] = narrow<T>(widen(dx[i]) + r * (w[i] * widen(dy[i]) - widen(x[i]) * pull));
    }
}
EXPORT(rms_norm_backward, (T *dx, const T *dy, const T *x, const f32 *rstd, const f32 *w, i64 rows, i64 width),
       (dx, dy, x, rstd, w, rows, width))

template <class T> struct NormTerm {
    const T *dy, *x;
    const f32 *rstd;
    i64 width;

    __device__ f32 operator()(i64 row, i64 column) const {
        i64 at = row * width + column;
        return widen(dy[at]) * widen(x[at]) * rstd[row];
    }
};

// dw [width] += Σ over n rows of dy · x · rstd. Launch: 256 threads, a block for each 32 columns.
template <class T>
__device__ void rms_norm_weight(f32 *dw, const T *dy, const T *x, const f32 *rstd, i64 n, i64 width) {
    NormTerm<T> term = {dy, x, rstd, width};
    sum_columns(dw, n, width, 64, term);
}
EXPORT(rms_norm_weight, (f32 *dw, const T *dy, const T *x, const f32 *rstd, i64 n, i64 width),
       (dw, dy, x, rstd, n, width))
