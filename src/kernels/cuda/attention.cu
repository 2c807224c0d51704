// The softmax of attention and its way back, between cuBLAS's products.
//
// Query rows are taken in blocks, so that no heads × T × T buffer exists: for a block of `rows` query rows, the first of
// which is row `first` of the pack, cuBLAS makes the scores [heads, rows, keys] of key rows `key` … `key + keys − 1`, f32
// and scaled. What a query row may see are the key rows from[row] … to[row] − 1 of the pack: that one pair of lists says
// causality, packing (a sample's rows begin at its own keys), cached keys and rows that see nothing. Probabilities of
// hidden keys are 0, so that the products that follow may run over the whole block.
#include "common.cuh"

// A warp's row of a head: row `row` of the block, `seen` the part of its keys that it sees.
struct Line {
    i64 at, row;
    i64 begin, end;
};

__device__ inline Line line(const u32 *from, const u32 *to, i64 first, i64 rows, i64 key, i64 keys) {
    i64 row = warp_row();
    Line line = {((i64)blockIdx.y * rows + row) * keys, first + row, 0, 0};
    if (row < rows) {
        i64 begin = (i64)from[line.row] - key, end = (i64)to[line.row] - key;
        line.begin = begin < 0 ? 0 : begin > keys ? keys : begin;
        line.end = end > keys ? keys : end < line.begin ? line.begin : end;
    }
    return line;
}

// p = softmax of the scores s [heads, rows, keys] over what each row sees, and lse [query rows of the pack, heads] =
// ln Σ e^score. A row that sees nothing has p = 0 and lse = −∞. In f32, p may be s. Launch: whole warps, a warp for each
// row, and heads in y.
template <class T>
__device__ void attention_softmax(T *p, f32 *lse, const f32 *s, const u32 *from, const u32 *to, i64 first, i64 rows,
                                  i64 key, i64 keys) {
    if (warp_row() >= rows) {
        return;
    }
    Line l = line(from, to, first, rows, key, keys);
    f32 top = -infinity();
    for (i64 i = l.begin + lane(); i < l.end; i += WARP) {
        top = larger(top, s[l.at + i]);
    }
    top = warp_max(top);
    f32 sum = 0.0f;
    for (i64 i = l.begin + lane(); i < l.end; i += WARP) {
        sum += exponential(s[l.at + i] - top);
    }
    sum = warp_sum(sum);
    f32 inverse = 1.0f / sum;
    for (i64 i = lane(); i < keys; i += WARP) {
        bool seen = i >= l.begin && i < l.end;
        p[l.at + i] = narrow<T>(seen ? exponential(s[l.at + i] - top) * inverse : 0.0f);
    }
    if (lane() == 0) {
        lse[l.row * gridDim.y + blockIdx.y] = top + logf(sum);
    }
}
EXPORT(attention_softmax,
       (T *p, f32 *lse, const f32 *s, const u32 *from, const u32 *to, i64 first, i64 rows, i64 key, i64 keys),
       (p, lse, s, from, to, first, rows, key, keys))

// mean [rows, heads] = Σ d_o · o over each head's `dim` columns: what every probability's gradient is taken from.
// Launch: whole warps, a warp for each row, and heads in y.
template <class T> __device__ void attention_mean(f32 *mean, const T *d_o, const T *o, i64 rows, i64 dim) {
    i64 row = warp_row();
    if (row >= rows) {
        return;
    }
    i64 at = row * gridDim.y + blockIdx.y;
    f32 dot = 0.0f;
    for (i64 i = lane(); i < dim; i += WARP) {
        dot += widen(d_o[at * dim + i]) * widen(o[at * dim + i]);
    }
    dot = warp_sum(dot);
    if (lane() == 0) {
        mean[at] = dot;
    }
}
EXPORT(attention_mean, (f32 *mean, const T *d_o, const T *o, i64 rows, i64 dim), (mean, d_o, o, rows, dim))

// p once more, from the scores s and lse, and ds = p · (dp − mean); dp [heads, rows, keys] is d_o·vᵀ, and lse and mean
// are [query rows of the pack, heads]. In f32, p may be s and ds dp. Launch: whole warps, a warp for each row, and heads
// in y.
template <class T>
__device__ void attention_softmax_backward(T *p, T *ds, const f32 *s, const f32 *dp, const f32 *lse, const f32 *mean,
                                           const u32 *from, const u32 *to, i64 first, i64 rows, i64 key, i64 keys) {
    if (warp_row() >= rows) {
        return;
    }
    Line l = line(from, to, first, rows, key, keys);
    f32 whole = lse[l.row * gridDim.y + blockIdx.y], pull = mean[l.row * gridDim.y + blockIdx.y];
    for (i64 i = lane(); i < keys; i += WARP) {
        bool seen = i >= l.begin && i < l.end;
        f32 probability = seen ? exponential(s[l.at + i] - whole) : 0.0f;
        f32 slope = seen ? probability * (dp[l.at + i] - pull) : 0.0f;
        p[l.at + i] = narrow<T>(probability);
        ds[l.at + i] = narrow<T>(slope);
    }
}
EXPORT(attention_softmax_backward,
       (T *p, T *ds, const f32 *s, const f32 *dp, const f32 *lse, const f32 *mean, const u32 *from, const u32 *to,
        i64 first, i64 rows, i64 key, i64 keys),
       (p, ds, s, dp, lse, mean, from, to, first, rows, key, keys))
