// The only file that knows nanobind: the core as a Python module.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <memory>

#include "bits.h"

namespace nb = nanobind;

namespace {

using Matrix = nb::ndarray<const float, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Words = nb::ndarray<nb::numpy, std::uint64_t, nb::ndim<2>>;

Words pack_signs(Matrix values) {
  const std::size_t rows = values.shape(0);
  const std::size_t columns = values.shape(1);
  const std::size_t width = bipointnet::words_for(columns);
  auto words = std::make_unique<std::uint64_t[]>(rows * width);
  {
    nb::gil_scoped_release unlocked;
    bipointnet::pack_signs(values.data(), rows, columns, words.get());
  }
  std::uint64_t* data = words.release();
  nb::capsule owner(data, [](void* p) noexcept { delete[] static_cast<std::uint64_t*>(p); });
  return Words(data, {rows, width}, owner);
}

}  // namespace

NB_MODULE(_core, module) {
  module.doc() = "The compiled core of bipointnet.";
  module.def("pack_signs", &pack_signs, nb::arg("values"),
             "Pack the signs of a (rows, columns) float32 matrix into (rows, ceil(columns / 64)) uint64 words.\n\n"
             "Bit c % 64 of word c // 64 is 1 where column c is >= 0 (-0.0 too), 0 where it is negative or NaN; "
             "pad bits are 0.");
}
