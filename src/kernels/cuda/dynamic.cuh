// The 8-bit dynamic type: a map of 256 ascending values, made and uploaded by the host.
#pragma once
#include "common.cuh"

// The code of the value nearest to v; the lower one's at a midpoint.
__device__ inline u8 nearest(const f32 *map, f32 v) {
    // How many values lie below v.
    u32 low = 0, high = 256;
    while (low < high) {
        u32 middle = (low + high) / 2;
        if (map[middle] < v) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    u32 right = low < 1 ? 1 : low > 255 ? 255 : low;
    f32 midpoint = (map[right - 1] + map[right]) * 0.5f;
    return (u8)(v > midpoint ? right : right - 1);
}
