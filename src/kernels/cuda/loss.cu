// Cross-entropy of next tokens, a block for each row of logits.
#include "common.cuh"

// The label of a position that counts in neither loss nor gradient.
enum : u32 { UNCOUNTED = 0xFFFFFFFFu };

// Elements that a warp sums in f32 before they are added in f64, so that the error does not grow with the vocabulary.
enum : u32 { PIECE = 2048 };

// Σ over the pieces of a row, in their order, for the first thread alone: f64 is slow on most cards. A warp takes every
// piece that is its turn; `piece(begin, end)` is a lane's share of one. `room` holds an f64 a piece.
template <class Piece> __device__ f64 sum_pieces(i64 n, f64 *room, Piece piece) {
    u32 pieces = (u32)((n + PIECE - 1) / PIECE);
    for (u32 p = warp(); p < pieces; p += blockDim.x / WARP) {
        i64 begin = (i64)p * PIECE;
        f32 sum = warp_sum(piece(begin, begin + PIECE < n ? begin + PIECE : n));
        if (lane() == 0) {
            room[p] = (f64)sum;
        }
    }
    __syncthreads();
    f64 sum = 0.0;
    for (u32 p = 0; threadIdx.x == 0 && p < pieces; p++) {
        sum += room[p];
    }
    return sum;
}

template <class T> struct Exponentials {
    const T *x;
    f32 shift;

    __device__ f32 operator()(i64 begin, i64 end) const {
        f32 sum = 0.0f;
        for (i64 i = begin + lane(); i < end; i += WARP) {
            sum += exponential(widen(x[i]) - shift);
        }
        return sum;
    }
};

// For each row of logits [rows, vocab]: lse = ln Σ e^logit and loss = lse − logit[label]; the loss of an uncounted row
// is 0. Launch: whole warps, a block for each row, 8 bytes of shared memory for each
// 2048 of vocab, begun or whole.
template <class T> __device__ void cross_entropy(f32 *loss, f32 *lse, const T *logits, const u32 *labels, i64 vocab) {
    DYNAMIC_SHARED(f64, pieces);
    SHARED(f32, tops, [WARP]);
    i64 row = blockIdx.x;
    const T *x = logits + row * vocab;
    f32 top = -infinity();
    for (i64 i = threadIdx.x; i < vocab; i += blockDim.x) {
        top = larger(top, widen(x[i]));
    }
    Exponentials<T> piece = {x, block_max(top, tops)};
    f64 sum = sum_pieces(vocab, pieces, piece);
    if (threadIdx.x == 0) {
        f64 whole = (f64)piece.shift + log(sum);
        u32 label = labels[row];
        lse[row] = (f32)whole;
        loss[row] = label == UNCOUNTED ? 0.0f : (f32)(whole - (f64)widen(x[label]));
    }
}
EXPORT(cross_entropy, (f32 *loss, f32 *lse, const T *logits, const u32 *labels, i64 vocab),
       (loss, lse, logits, labels, vocab))

// Replaces logits by their gradient as it sums them; the label's own is left out.
template <class T> struct Gradients {
    T *x;
    f32 lse, scale;
    i64 label;

    __device__ f32 operator()(i64 begin, i64 end) const {
        f32 sum = 0.0f;
        for (i64 i = begin + lane(); i < end; i += WARP) {
            f32 p = i == label ? 0.0f : exponential(widen(x[i]) - lse);
            sum += p;
            x[i] = narrow<T>(p * scale);
        }
        return sum;
    }
};

// Turns logits [rows, vocab] into their gradient (softmax − onehot(label)) · scale · loss_scale, an uncounted row into 0.
// `loss_scale` is one f32 of f16 training, or null. Launch: as cross_entropy.
template <class T>
__device__ void cross_entropy_gradient(T *logits, const f32 *lse, const u32 *labels, f32 scale, const f32 *loss_scale,
                                       i64 vocab) {
    DYNAMIC_SHARED(f64, pieces);
    i64 row = blockIdx.x;
    T *x = logits + row * vocab;
    u32 label = labels[row];
    if (label == UNCOUNTED) {
        for (i64 i = threadIdx.x; i < vocab; i += blockDim.x) {
            x[i] = narrow<T>(0.0f);
        }
        return;
    }
    scale = loss_scale ? scale * *loss_scale : scale;
    // A row's gradient sums to zero, so the label's part is what the others add up to: 1 − p without the loss of digits
    // when p is nearly 1.
    Gradients<T> piece = {x, lse[row], scale, label};
    f64 others = sum_pieces(vocab, pieces, piece);
    if (threadIdx.x == 0) {
        x[label] = narrow<T>((f32)(-others * (f64)scale));
    }
}
EXPORT(cross_entropy_gradient,
       (T *logits, const f32 *lse, const u32 *labels, f32 scale, const f32 *loss_scale, i64 vocab),
       (logits, lse, labels, scale, loss_scale, vocab))

// sum += Σ loss over n rows, for a report that is read later. Launch: whole warps, a single block.
__device__ inline void add_losses(f64 *sum, const f32 *loss, i64 n) {
    SHARED(f64, room, [WARP]);
    f64 own = 0.0;
    for (i64 i = threadIdx.x; i < n; i += blockDim.x) {
        own += (f64)loss[i];
    }
    f64 all = block_sum(own, room);
    if (threadIdx.x == 0) {
        *sum += all;
    }
}
EXPORT_F32(add_losses, (f64 *sum, const f32 *loss, i64 n), (sum, loss, n))
