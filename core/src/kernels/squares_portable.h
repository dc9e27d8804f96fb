// Squares of floats and of bytes, for instruction sets without instructions for them. Included like body.h, before it.

constexpr int kSquare = 4;

// Writes the transposed square of kSquare x kSquare floats.
inline void transpose_square(const float* from, long from_stride, float* to, long to_stride) {
  for (int r = 0; r < kSquare; ++r) {
    for (int c = 0; c < kSquare; ++c) to[c * to_stride + r] = from[r * from_stride + c];
  }
}

// The same for kSquare rows that `index` names.
inline void gather_square(const float* rows, long stride, const std::uint32_t* index, float* to, long to_stride) {
  for (int r = 0; r < kSquare; ++r) {
    for (int c = 0; c < kSquare; ++c) to[c * to_stride + r] = rows[static_cast<std::int64_t>(index[r]) * stride + c];
  }
}

constexpr int kByteSquare = 8;

// Writes the transposed square of kByteSquare x kByteSquare bytes.
inline void transpose_bytes(const std::uint8_t* from, long from_stride, std::uint8_t* to, long to_stride) {
  for (int r = 0; r < kByteSquare; ++r) {
    for (int c = 0; c < kByteSquare; ++c) to[c * to_stride + r] = from[r * from_stride + c];
  }
}
