// delta(n) as the nearest double, computed with 400 bits by mpmath. The C++ test and tests/test_delta.py read this
// table.
#pragma once

#include <cstdint>

namespace bipointnet {

struct DeltaValue {
  std::uint64_t n;
  double value;
};

constexpr DeltaValue kDeltaValues[] = {
    {1u, 0x0.0p+0},
    {2u, 0x1.1703f760b94d8p-1},
    {3u, 0x1.a37f0a75b96eap-1},
    {4u, 0x1.ff0d5ecdc42a3p-1},
    {5u, 0x1.2105fb835c825p+0},
    {6u, 0x1.3b37e65ccddf7p+0},
    {7u, 0x1.509b802e97ac8p+0},
    {8u, 0x1.629c5710904dap+0},
    {9u, 0x1.721bea424ec3ep+0},
    {10u, 0x1.7faf364ffb590p+0},
    {12u, 0x1.96914d7c87da5p+0},
    {15u, 0x1.b198392fd80adp+0},
    {16u, 0x1.b93900d0868c8p+0},
    {20u, 0x1.d2fc62cdfbc5ap+0},
    {24u, 0x1.e75f7f2020305p+0},
    {31u, 0x1.01884956660e7p+1},
    {32u, 0x1.0336ddd687809p+1},
    {33u, 0x1.04d658ad9f7c2p+1},
    {48u, 0x1.180e95a368a87p+1},
    {63u, 0x1.256c83ef6f4b4p+1},
    {64u, 0x1.262f1feba1292p+1},
    {65u, 0x1.26ee591465939p+1},
    {71u, 0x1.2b286ecd80b68p+1},
    {100u, 0x1.3b240e4e1533ep+1},
    {127u, 0x1.45ee682184dd0p+1},
    {128u, 0x1.4647d448362b8p+1},
    {129u, 0x1.46a07b1e4d273p+1},
    {145u, 0x1.4bcb8cc355656p+1},
    {200u, 0x1.59b06062f2e2bp+1},
    {255u, 0x1.63e4679a3a6f9p+1},
    {256u, 0x1.640dfba21b5acp+1},
    {257u, 0x1.64376234ac91dp+1},
    {300u, 0x1.6a95f63889826p+1},
    {500u, 0x1.7efd16126f042p+1},
    {511u, 0x1.7fd66ab5b97abp+1},
    {512u, 0x1.7fe9ebfc83c0cp+1},
    {513u, 0x1.7ffd62b002c2ep+1},
    {777u, 0x1.8fe337ead1100p+1},
    {1000u, 0x1.994a9cd25a8f0p+1},
    {1023u, 0x1.9a213f960b619p+1},
    {1024u, 0x1.9a2a764d77c7ap+1},
    {1025u, 0x1.9a33aa8a0b93ep+1},
    {1500u, 0x1.a806ba6fa3f08p+1},
    {2000u, 0x1.b237a34d1d334p+1},
    {2047u, 0x1.b307f6b9b52f0p+1},
    {2048u, 0x1.b30c5726c87eap+1},
    {2049u, 0x1.b310b6fe03b55p+1},
    {3000u, 0x1.c03c865f063a9p+1},
    {4095u, 0x1.cabd2882e6c45p+1},
    {4096u, 0x1.cabf3f2b8cce4p+1},
    {4097u, 0x1.cac155b0a3592p+1},
    {8191u, 0x1.e16847db49dd7p+1},
    {8192u, 0x1.e16947f850665p+1},
    {10000u, 0x1.e7c20cc1ba0efp+1},
    {12345u, 0x1.ee6219f44da8ap+1},
    {16383u, 0x1.f728e2b5f32a7p+1},
    {16384u, 0x1.f7295dcb54dd5p+1},
    {16385u, 0x1.f729d8deaf2b4p+1},
    {65536u, 0x1.1026a56aa7ce6p+2},
    {100000u, 0x1.162537921ddabp+2},
    {1000000u, 0x1.34ecff1f10865p+2},
    {2200392u, 0x1.3ed57a6be8753p+2},
    {10189786u, 0x1.514ffc9144e36p+2},
    {4294967295ull, 0x1.926531fb4ba31p+2},
    {4294967296ull, 0x1.926531fb55937p+2},
    {1099511627776ull, 0x1.c64e75efa9cd4p+2},
    {1000000000000000ull, 0x1.ff25a586c08bep+2},
    {9007199254740992ull, 0x1.081c1d372492ep+3},
};

// FNV-1a (64 bits) over the bytes, least significant first, of the nearest doubles to delta(1), ..., delta(16384).
constexpr std::uint64_t kDeltaHash = 0x25dd7595626b00f0;

}  // namespace bipointnet
