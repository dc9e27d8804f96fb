// The Python module. The only file that uses nanobind.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <optional>

#include "engine/delta.h"
#include "engine/model.h"
#include "format/bits.h"
#include "format/file.h"
#include "kernels/dispatch.h"

namespace nb = nanobind;
using bipointnet::Model;

namespace {

using Matrix = nb::ndarray<const float, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Batch = nb::ndarray<const float, nb::ndim<3>, nb::c_contig, nb::device::cpu>;

template <class T>
nb::object array(std::unique_ptr<T[]> data, std::initializer_list<std::size_t> shape) {
  T* pointer = data.release();
  nb::capsule owner(pointer, [](void* p) noexcept { delete[] static_cast<T*>(p); });
  return nb::cast(nb::ndarray<nb::numpy, T>(pointer, shape, owner));
}

nb::object pack_signs(Matrix values) {
  const std::size_t rows = values.shape(0);
  const std::size_t columns = values.shape(1);
  const std::size_t width = bipointnet::words_for(columns);
  auto words = std::make_unique<std::uint64_t[]>(rows * width);
  {
    nb::gil_scoped_release unlocked;
    bipointnet::pack_signs(values.data(), rows, columns, words.get());
  }
  return array(std::move(words), {rows, width});
}

void require_channels(const Model& model, std::size_t channels) {
  const std::size_t expected = static_cast<std::size_t>(model.network().channels);
  if (channels != expected) {
    throw bipointnet::InputError(std::to_string(channels) + " channels per point, expected " +
                                 std::to_string(expected));
  }
}

nb::object predict(const Model& model, Batch points, bool raw, unsigned threads, int category) {
  require_channels(model, points.shape(2));
  const std::size_t clouds = points.shape(0), count = points.shape(1), classes = model.network().classes.size();
  auto logits = std::make_unique<float[]>(model.logits(clouds, count));
  {
    nb::gil_scoped_release unlocked;
    model.predict(points.data(), clouds, count, raw, threads, category, logits.get());
  }
  if (model.network().per_point()) return array(std::move(logits), {clouds, count, classes});
  return array(std::move(logits), {clouds, classes});
}

template <class T>
nb::object value_array(const bipointnet::Value& value) {
  auto numbers = std::make_unique<T[]>(value.numbers.size());
  for (std::size_t i = 0; i < value.numbers.size(); ++i) numbers[i] = static_cast<T>(value.numbers[i]);
  if (value.rows == 0) return array(std::move(numbers), {value.columns});
  return array(std::move(numbers), {value.rows, value.columns});
}

nb::list trace(const Model& model, Matrix points, bool raw, int category) {
  require_channels(model, points.shape(1));
  nb::list values;
  for (const bipointnet::Value& value : model.trace(points.data(), points.shape(0), raw, category)) {
    values.append(value.bits ? value_array<std::uint8_t>(value) : value_array<float>(value));
  }
  return values;
}

void load(Model* self, nb::bytes data, const std::optional<std::string>& isa) {
  new (self) Model(bipointnet::parse(static_cast<const std::uint8_t*>(data.data()), data.size()),
                   bipointnet::find_kernels(isa.value_or("")));
}

nb::bytes read_packed_file(const std::string& path) {
  std::vector<std::uint8_t> bytes;
  {
    nb::gil_scoped_release unlocked;
    bytes = bipointnet::read_packed_file(path);
  }
  return nb::bytes(bytes.data(), bytes.size());
}

}  // namespace

NB_MODULE(_core, module) {
  module.doc() = "The compiled core of bipointnet.";
  nb::exception<bipointnet::FormatError>(module, "FormatError", PyExc_ValueError);
  nb::exception<bipointnet::FileError>(module, "FileError", PyExc_OSError);
  nb::exception<bipointnet::InputError>(module, "InputError", PyExc_ValueError);
  nb::exception<bipointnet::IsaError>(module, "IsaError", PyExc_ValueError);
  module.def("pack_signs", &pack_signs, nb::arg("values"),
             "Pack the signs of a (rows, columns) float32 matrix into (rows, ceil(columns / 64)) uint64 words.\n\n"
             "Bit c % 64 of word c // 64 is 1 where column c is >= 0 (-0.0 too), 0 where it is negative or NaN; "
             "pad bits are 0.");
  module.def("delta", &bipointnet::delta, nb::arg("n"), "Phi^-1(2^(-1/n)), the shift of a max pool over n points.");
  module.def(
      "isas",
      [] {
        std::vector<std::string> names;
        for (const bipointnet::Kernels* kernels : bipointnet::available_kernels()) names.emplace_back(kernels->name);
        return names;
      },
      "The instruction sets that run on this machine, best first.");
  module.def(
      "default_isa", [] { return std::string(bipointnet::find_kernels().name); },
      "The default instruction set: BIPOINTNET_ISA, or the best one.");
  module.def(
      "read_packed_file", [](nb::bytes path) { return read_packed_file({path.c_str(), path.size()}); }, nb::arg("path"),
      "The bytes of a packed model, given its path as bytes (`os.fsencode`). The header is checked first: after a wrong\n"
      "one nothing else is read.");
  nb::class_<Model>(module, "Model", "A packed model that is ready to run.")
      .def("__init__", &load, nb::arg("data"), nb::arg("isa") = nb::none())
      .def_prop_ro("manifest", [](const Model& model) { return model.network().manifest; })
      .def_prop_ro("isa", [](const Model& model) { return std::string(model.kernels().name); })
      .def_prop_ro("channels", [](const Model& model) { return model.network().channels; })
      .def_prop_ro("classes", [](const Model& model) { return model.network().classes; })
      .def_prop_ro("categories", [](const Model& model) { return model.network().categories; })
      .def_prop_ro("parts", [](const Model& model) { return model.network().parts; })
      .def_prop_ro("task", [](const Model& model) { return std::string(name_of(model.network().task)); })
      .def_prop_ro("segments", [](const Model& model) { return model.network().per_point(); })
      .def("predict", &predict, nb::arg("points"), nb::arg("raw"), nb::arg("threads"), nb::arg("category") = -1,
           "Logits (B, classes) of clouds (B, N, C), or (B, N, classes) if the model has logits per point.\n\n"
           "category: the category of all clouds, or -1 if the model has no categories.")
      .def("trace", &trace, nb::arg("points"), nb::arg("raw"), nb::arg("category") = -1,
           "The value after every operation, for a cloud (N, C).");
}
