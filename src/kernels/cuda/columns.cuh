// Sums down the columns of a matrix, in the order of the CPU form: chunks of rows first, then chunks in their order.
#pragma once
#include "common.cuh"

enum : u32 { COLUMN_WARPS = 8 };

// Adds to `total` [width] the sums over `n` rows of `term(row, column)`; `chunk` rows are summed before they are added to
// the others. Launch: 256 threads, a block for each 32 columns. A warp takes a chunk, the block 8 of them at a time, and
// one warp adds those up, so that neither scratch nor a second kernel is needed.
template <class Term> __device__ void sum_columns(f32 *total, i64 n, i64 width, i64 chunk, Term term) {
    SHARED(f32, part, [COLUMN_WARPS][WARP]);
    i64 column = blockIdx.x * (i64)WARP + lane();
    bool inside = column < width;
    f32 sum = 0.0f;
    for (i64 first = 0; first < n; first += chunk * COLUMN_WARPS) {
        i64 begin = first + warp() * chunk;
        i64 end = begin + chunk < n ? begin + chunk : n;
        f32 terms = 0.0f;
        if (inside) {
            for (i64 row = begin; row < end; row++) {
                terms += term(row, column);
            }
        }
        part[warp()][lane()] = terms;
        __syncthreads();
        if (warp() == 0) {
            for (u32 w = 0; w < COLUMN_WARPS && first + w * chunk < n; w++) {
                sum += part[w][lane()];
            }
        }
        __syncthreads();
    }
    if (warp() == 0 && inside) {
        total[column] += sum;
    }
}
