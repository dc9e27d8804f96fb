// Squares of 4 x 4 floats and of 8 x 8 bytes in registers of 128 bits. Included like body.h, before it, for AVX2,
// AVX-512 and WebAssembly.

constexpr int kSquare = 4;

inline __attribute__((always_inline)) void put_square(__m128 a, __m128 b, __m128 c, __m128 d, float* to,
                                                      long to_stride) {
  const __m128 ab = _mm_unpacklo_ps(a, b), cd = _mm_unpacklo_ps(c, d);
  const __m128 ef = _mm_unpackhi_ps(a, b), gh = _mm_unpackhi_ps(c, d);
  _mm_storeu_ps(to, _mm_movelh_ps(ab, cd));
  _mm_storeu_ps(to + to_stride, _mm_movehl_ps(cd, ab));
  _mm_storeu_ps(to + 2 * to_stride, _mm_movelh_ps(ef, gh));
  _mm_storeu_ps(to + 3 * to_stride, _mm_movehl_ps(gh, ef));
}

// Writes the transposed square of kSquare x kSquare floats.
inline __attribute__((always_inline)) void transpose_square(const float* from, long from_stride, float* to,
                                                            long to_stride) {
  put_square(_mm_loadu_ps(from), _mm_loadu_ps(from + from_stride), _mm_loadu_ps(from + 2 * from_stride),
             _mm_loadu_ps(from + 3 * from_stride), to, to_stride);
}

// The same for kSquare rows that `index` names.
inline __attribute__((always_inline)) void gather_square(const float* rows, long stride, const std::uint32_t* index,
                                                         float* to, long to_stride) {
  const auto row = [&](int i) { return _mm_loadu_ps(rows + static_cast<std::int64_t>(index[i]) * stride); };
  put_square(row(0), row(1), row(2), row(3), to, to_stride);
}

constexpr int kByteSquare = 8;

// Writes the transposed square of kByteSquare x kByteSquare bytes.
inline __attribute__((always_inline)) void transpose_bytes(const std::uint8_t* from, long from_stride,
                                                           std::uint8_t* to, long to_stride) {
  const auto row = [&](int i) { return _mm_loadl_epi64(reinterpret_cast<const __m128i*>(from + i * from_stride)); };
  const __m128i a = _mm_unpacklo_epi8(row(0), row(1)), b = _mm_unpacklo_epi8(row(2), row(3));
  const __m128i c = _mm_unpacklo_epi8(row(4), row(5)), d = _mm_unpacklo_epi8(row(6), row(7));
  const __m128i e = _mm_unpacklo_epi16(a, b), f = _mm_unpackhi_epi16(a, b);
  const __m128i g = _mm_unpacklo_epi16(c, d), h = _mm_unpackhi_epi16(c, d);
  const auto put = [&](int i, __m128i both) {  // rows i and i + 1
    _mm_storel_epi64(reinterpret_cast<__m128i*>(to + i * to_stride), both);
    _mm_storel_epi64(reinterpret_cast<__m128i*>(to + (i + 1) * to_stride), _mm_unpackhi_epi64(both, both));
  };
  put(0, _mm_unpacklo_epi32(e, g));
  put(2, _mm_unpackhi_epi32(e, g));
  put(4, _mm_unpacklo_epi32(f, h));
  put(6, _mm_unpackhi_epi32(f, h));
}
