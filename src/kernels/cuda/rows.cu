// Rows picked out of a matrix and put back: of a table by token, or of a matrix by place. Ids and places are checked on
// the host, which has them.
#include "common.cuh"

template <class X, class W> __device__ void look_up(X *x, const W *table, const u32 *ids, i64 width) {
    X *to = x + blockIdx.x * width;
    const W *row = table + ids[blockIdx.x] * width;
    for (i64 i = threadIdx.x; i < width; i += blockDim.x) {
        to[i] = narrow<X>(widen(row[i]));
    }
}

// x[i] = table[ids[i]], rows of `width`. Launch: a block for each id.
template <class T> __device__ void embedding(T *x, const T *table, const u32 *ids, i64 width) {
    look_up(x, table, ids, width);
}
EXPORT(embedding, (T *x, const T *table, const u32 *ids, i64 width), (x, table, ids, width))

// As embedding, from a table in f32, as full training has it. Launch: a block for each id.
template <class T> __device__ void embedding_narrow(T *x, const f32 *table, const u32 *ids, i64 width) {
    look_up(x, table, ids, width);
}
EXPORT(embedding_narrow, (T *x, const f32 *table, const u32 *ids, i64 width), (x, table, ids, width))

// As embedding, into f32. Launch: a block for each id.
template <class T> __device__ void embedding_widen(f32 *x, const T *table, const u32 *ids, i64 width) {
    look_up(x, table, ids, width);
}
EXPORT(embedding_widen, (f32 *x, const T *table, const u32 *ids, i64 width), (x, table, ids, width))

// dtable[ids[i]] += dx[i], in the order of i. The host sorts: `known` are the distinct ids, and the places i of the kth of
// them are order[starts[k]] … order[starts[k + 1] − 1], ascending. A block owns a row, so nothing is added atomically.
// Launch: a block for each distinct id.
template <class T>
__device__ void embedding_backward(f32 *dtable, const T *dx, const u32 *known, const u32 *starts, const u32 *order,
                                   i64 width) {
    f32 *row = dtable + known[blockIdx.x] * width;
    u32 begin = starts[blockIdx.x], end = starts[blockIdx.x + 1];
    for (i64 i = threadIdx.x; i < width; i += blockDim.x) {
        f32 sum = row[i];
        for (u32 k = begin; k < end; k++) {
            sum += widen(dx[order[k] * width + i]);
        }
        row[i] = sum;
    }
}
EXPORT(embedding_backward,
       (f32 *dtable, const T *dx, const u32 *known, const u32 *starts, const u32 *order, i64 width),
       (dtable, dx, known, starts, order, width))

// y[i] = x[rows[i]]. Launch: a block for each row of y.
template <class T> __device__ void gather_rows(T *y, const T *x, const u32 *rows, i64 width) {
    T *to = y + blockIdx.x * width;
    const T *row = x + rows[blockIdx.x] * width;
    for (i64 i = threadIdx.x; i < width; i += blockDim.x) {
        to[i] = row[i];
    }
}
EXPORT(gather_rows, (T *y, const T *x, const u32 *rows, i64 width), (y, x, rows, width))

// y[rows[i]] = x[i]; other rows stay as they are. No row may be named twice: which one stands would be a matter of
// timing. Launch: a block for each row of x.
template <class T> __device__ void scatter_rows(T *y, const T *x, const u32 *rows, i64 width) {
    T *to = y + rows[blockIdx.x] * width;
    const T *row = x + blockIdx.x * width;
    for (i64 i = threadIdx.x; i < width; i += blockDim.x) {
        to[i] = row[i];
    }
}
EXPORT(scatter_rows, (T *y, const T *x, const u32 *rows, i64 width), (y, x, rows, width))
