// Operations element by element, and the column sums that a bias's gradient takes.
#include "columns.cuh"

// y += x. Launch: any number of threads.
template <class T> __device__ void add(T *y, const T *x, i64 n) {
    EACH(i, n) {
        y[i] = narrow<T>(widen(y[i]) + widen(x[i]));
    }
}
EXPORT(add, (T *y, const T *x, i64 n), (y, x, n))

// Each row of y [rows, width] += b [width]. Launch: a block for each row.
template <class T> __device__ void add_bias(T *y, const f32 *b, i64 width) {
    T *row = y + blockIdx.x * width;
    for (i64 i = threadIdx.x; i < width; i += blockDim.x) {
        row[i] = narrow<T>(widen(row[i]) + b[i]);
    }
}
EXPORT(add_bias, (T *y, const f32 *b, i64 width), (y, b, width))

template <class T> struct BiasTerm {
    const T *dy;
    i64 width;

    __device__ f32 operator()(i64 row, i64 column) const {
        return widen(dy[row * width + column]);
    }
};

// db [width] += the column sums of dy [n, width]. Launch: 256 threads, a block for each 32 columns.
template <class T> __device__ void bias_backward(f32 *db, const T *dy, i64 n, i64 width) {
    BiasTerm<T> term = {dy, width};
    sum_columns(db, n, width, 64, term);
}
EXPORT(bias_backward, (f32 *db, const T *dy, i64 n, i64 width), (db, dy, n, width))

// y = s · y. Launch: any number of threads.
template <class T> __device__ void scale(T *y, f32 s, i64 n) {
    EACH(i, n) {
        y[i] = narrow<T>(widen(y[i]) * s);
    }
}
EXPORT(scale, (T *y, f32 s, i64 n), (y, s, n))

// Sets every element. Launch: any number of threads.
template <class T> __device__ void fill(T *y, f32 v, i64 n) {
    T narrowed = narrow<T>(v);
    EACH(i, n) {
        y[i] = narrowed;
    }
}
EXPORT(fill, (T *y, f32 v, i64 n), (y, v, n))

// y = x, bit for bit. Launch: any number of threads.
template <class T> __device__ void copy(T *y, const T *x, i64 n) {
    EACH(i, n) {
        y[i] = x[i];
    }
}
EXPORT(copy, (T *y, const T *x, i64 n), (y, x, n))

// f32 from T. Launch: any number of threads.
template <class T> __device__ void widen_all(f32 *y, const T *x, i64 n) {
    EACH(i, n) {
        y[i] = widen(x[i]);
    }
}
EXPORT(widen_all, (f32 *y, const T *x, i64 n), (y, x, n))

// T from f32, to the nearest, ties to even. Launch: any number of threads.
template <class T> __device__ void narrow_all(T *y, const f32 *x, i64 n) {
    EACH(i, n) {
        y[i] = narrow<T>(x[i]);
    }
}
EXPORT(narrow_all, (T *y, const f32 *x, i64 n), (y, x, n))

__device__ inline f32 sigmoid(f32 x) {
    return 1.0f / (1.0f + exponential(-x));
}

// a = silu(g) · u; `a` may be `g` or `u`. Launch: any number of threads.
template <class T> __device__ void swiglu(T *a, const T *g, const T *u, i64 n) {
    EACH(i, n) {
        f32 gate = widen(g[i]);
        a[i] = narrow<T>(gate * sigmoid(gate) * widen(u[i]));
    }
}
EXPORT(swiglu, (T *a, const T *g, const T *u, i64 n), (a, g, u, n))

// du = da · silu(g), dg = da · u · σ(g) · (1 + g · (1 − σ(g))); outputs may be inputs, each at its own element.
// Launch: any number of threads.
template <class T> __device__ void swiglu_backward(T *dg, T *du, const T *da, const T *g, const T *u, i64 n) {
    EACH(i, n) {
        f32 gate = widen(g[i]), up = widen(u[i]), d = widen(da[i]);
        f32 s = sigmoid(gate);
        du[i] = narrow<T>(d * (gate * s));
        dg[i] = narrow<T>(d * up * (s * (1.0f + gate * (1.0f - s))));
    }
}
EXPORT(swiglu_backward, (T *dg, T *du, const T *da, const T *g, const T *u, i64 n), (dg, du, da, g, u, n))
