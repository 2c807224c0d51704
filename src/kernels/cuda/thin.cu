// Products with an adapter's matrices, of at most 32 rows: too thin to fill a tensor core's tiles, so that the wide matrix
// is what matters, and is read once. Adapters and their inner columns are f32.
#include "common.cuh"

// Rows of x that a warp takes, and rows of the thin matrix that are multiplied at a time.
enum : u32 { TALL = 4, AT_ONCE = 8 };

// y = alpha · x·mᵀ: y [n, thin], x [n, k], m [thin, k]. Launch: whole warps, a warp for each 4 rows of x.
template <class T>
__device__ void thin_product(f32 *y, const T *x, const f32 *m, i64 n, i64 k, i64 thin, f32 alpha) {
    i64 row = warp_row() * TALL;
    if (row >= n) {
        return;
    }
    const T *rows[TALL];
    for (u32 r = 0; r < TALL; r++) {
        // Rows beyond the last repeat it, and are not stored.
        rows[r] = x + (row + r < n ? row + r : n - 1) * k;
    }
    for (i64 first = 0; first < thin; first += AT_ONCE) {
        f32 sums[TALL][AT_ONCE] = {};
        for (i64 i = lane(); i < k; i += WARP) {
            f32 v[TALL];
            for (u32 r = 0; r < TALL; r++) {
                v[r] = widen(rows[r][i]);
            }
            for (u32 j = 0; j < AT_ONCE; j++) {
                f32 w = first + j < thin ? m[(first + j) * k + i] : 0.0f;
                for (u32 r = 0; r < TALL; r++) {
                    sums[r][j] = fmaf(v[r], w, sums[r][j]);
                }
            }
        }
        for (u32 r = 0; r < TALL; r++) {
            for (u32 j = 0; j < AT_ONCE; j++) {
                f32 sum = warp_sum(sums[r][j]);
                if (lane() == 0 && row + r < n && first + j < thin) {
                    y[(row + r) * thin + first + j] = alpha * sum;
                }
            }
        }
    }
}
EXPORT(thin_product, (f32 *y, const T *x, const f32 *m, i64 n, i64 k, i64 thin, f32 alpha),
       (y, x, m, n, k, thin, alpha))

// Rows of y that a block of threads goes down, with its columns of the thin matrix in registers.
enum : u32 { DOWN = 64 };

template <u32 MOST, class T>
__device__ void add_product(T *y, const f32 *low, const f32 *m, i64 n, i64 k, i64 thin, i64 apart, i64 step, f32 alpha) {
    i64 column = blockIdx.x * (i64)blockDim.x + threadIdx.x;
    if (column >= k) {
        return;
    }
    f32 w[MOST];
#pragma unroll
    for (u32 j = 0; j < MOST; j++) {
        w[j] = j < thin ? m[column * apart + j * step] : 0.0f;
    }
    i64 first = blockIdx.y * (i64)DOWN, end = first + DOWN < n ? first + DOWN : n;
    for (i64 row = first; row < end; row++) {
        f32 sum = 0.0f;
#pragma unroll
        for (u32 j = 0; j < MOST; j++) {
            if (j < thin) {
                sum = fmaf(low[row * thin + j], w[j], sum);
            }
        }
        y[row * k + column] = narrow<T>(widen(y[row * k + column]) + alpha * sum);
    }
}

// y += alpha · low·mᵀ: y [n, k], low [n, thin]; column c of the output takes m[c · apart + j · step] for j < thin ≤ 32, so
// that both of an adapter's matrices serve as they lie. Launch: a thread for each column, and 64 rows for each y.
template <class T>
__device__ void thin_add(T *y, const f32 *low, const f32 *m, i64 n, i64 k, i64 thin, i64 apart, i64 step, f32 alpha) {
    if (thin <= 8) {
        add_product<8>(y, low, m, n, k, thin, apart, step, alpha);
    } else if (thin <= 16) {
        add_product<16>(y, low, m, n, k, thin, apart, step, alpha);
    } else {
        add_product<32>(y, low, m, n, k, thin, apart, step, alpha);
    }
}
EXPORT(thin_add, (T *y, const f32 *low, const f32 *m, i64 n, i64 k, i64 thin, i64 apart, i64 step, f32 alpha),
       (y, low, m, n, k, thin, apart, step, alpha))

// Rows whose sum is made before it is added, as in the CPU form.
enum : u32 { DEPTH = 128, WARPS = 8 };

// Adds alpha · Σ over rows of l[row, j] · x[row, c] to g[j · apart + c · step]. Warps take chunks of rows, whose sums are
// added in the order of the rows.
template <class T>
__device__ void add_sums(f32 *g, const f32 *l, const T *x, i64 n, i64 k, i64 thin, i64 apart, i64 step, f32 alpha) {
    SHARED(f32, part, [WARPS][AT_ONCE][WARP]);
    i64 column = blockIdx.x * (i64)WARP + lane(), j0 = blockIdx.y * (i64)AT_ONCE;
    bool inside = column < k;
    // A warp adds up the chunks of one row of g.
    i64 own = j0 + warp();
    bool adds = inside && own < thin;
    f32 total = adds ? g[own * apart + column * step] : 0.0f;
    for (i64 first = 0; first < n; first += (i64)DEPTH * WARPS) {
        i64 begin = first + warp() * (i64)DEPTH;
        i64 end = begin + DEPTH < n ? begin + DEPTH : n;
        f32 sums[AT_ONCE] = {};
        if (inside) {
            for (i64 row = begin; row < end; row++) {
                f32 v = widen(x[row * k + column]);
                for (u32 j = 0; j < AT_ONCE; j++) {
                    sums[j] = fmaf(j0 + j < thin ? l[row * thin + j0 + j] : 0.0f, v, sums[j]);
                }
            }
        }
        for (u32 j = 0; j < AT_ONCE; j++) {
            part[warp()][j][lane()] = sums[j];
        }
        __syncthreads();
        for (u32 w = 0; w < WARPS && first + w * (i64)DEPTH < n; w++) {
            total += alpha * part[w][warp()][lane()];
        }
        __syncthreads();
    }
    if (adds) {
        g[own * apart + column * step] = total;
    }
}

// g += alpha · lᵀ·x: g [thin, k], l [n, thin], x [n, k]. Launch: 256 threads, a block for each 32 columns, and 8 rows of g
// for each y.
template <class T> __device__ void thin_sum(f32 *g, const f32 *l, const T *x, i64 n, i64 k, i64 thin, f32 alpha) {
    add_sums(g, l, x, n, k, thin, k, 1, alpha);
}
EXPORT(thin_sum, (f32 *g, const f32 *l, const T *x, i64 n, i64 k, i64 thin, f32 alpha), (g, l, x, n, k, thin, alpha))

// thin_sum into a transposed output: g += alpha · xᵀ·l, g [k, thin]. Launch: as thin_sum.
template <class T>
__device__ void thin_sum_turned(f32 *g, const f32 *l, const T *x, i64 n, i64 k, i64 thin, f32 alpha) {
    add_sums(g, l, x, n, k, thin, 1, thin, alpha);
}
EXPORT(thin_sum_turned, (f32 *g, const f32 *l, const T *x, i64 n, i64 k, i64 thin, f32 alpha),
       (g, l, x, n, k, thin, alpha))

// y [cols, rows] becomes the transpose of x [rows, cols]. Launch: any number of threads.
__device__ inline void turn(f32 *y, const f32 *x, i64 rows, i64 cols) {
    EACH(i, rows * cols) {
        y[i] = x[i % rows * cols + i / rows];
    }
}
EXPORT_F32(turn, (f32 *y, const f32 *x, i64 rows, i64 cols), (y, x, rows, cols))
