// The Python module. The only file that uses nanobind.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <optional>
#include <string_view>

#include "clouds/finish.h"
#include "clouds/read.h"
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

template <class T>
nb::object array_of(std::vector<T> values, std::initializer_list<std::size_t> shape) {
  auto* owned = new std::vector<T>(std::move(values));
  nb::capsule owner(owned, [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
  return nb::cast(nb::ndarray<nb::numpy, T>(owned->data(), shape, owner));
}

// Names of columns in a file may be any bytes.
nb::object text_of(const std::string& text) {
  return nb::steal(PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "replace"));
}

nb::list texts_of(const std::vector<std::string>& texts) {
  nb::list list;
  for (const std::string& text : texts) list.append(text_of(text));
  return list;
}

// A dict, as bipointnet.data.clouds expects it; arrays own their memory.
nb::dict cloud_dict(bipointnet::clouds::Cloud cloud) {
  nb::dict dict;
  const std::size_t count = cloud.size();
  dict["format"] = text_of(cloud.format);
  dict["points"] = array_of(std::move(cloud.points), {count, 3});
  dict["origin"] = nb::make_tuple(cloud.origin[0], cloud.origin[1], cloud.origin[2]);
  dict["colors"] = cloud.colors.empty() ? nb::none() : array_of(std::move(cloud.colors), {count, 3});
  dict["color_scale"] = cloud.color_scale;
  const std::size_t faces = cloud.faces.size() / 3;
  dict["faces"] = faces == 0 ? nb::none() : array_of(std::move(cloud.faces), {faces, 3});
  nb::list fields;
  for (bipointnet::clouds::Column& column : cloud.fields) {
    fields.append(nb::make_tuple(text_of(column.name), array_of(std::move(column.values), {count})));
  }
  dict["fields"] = fields;
  dict["columns"] = texts_of(cloud.columns);
  dict["dropped"] = cloud.dropped;
  dict["kept"] = cloud.kept.empty() ? nb::none() : array_of(std::move(cloud.kept), {count});
  dict["notes"] = texts_of(cloud.notes);
  return dict;
}

nb::dict read_cloud(nb::bytes data, const std::string& name, const std::vector<std::string>& columns, bool strict) {
  bipointnet::clouds::Cloud cloud;
  const std::string_view bytes(static_cast<const char*>(data.data()), data.size());
  {
    nb::gil_scoped_release unlocked;
    cloud = bipointnet::clouds::read_cloud_bytes(bytes, name, {columns, strict});
  }
  return cloud_dict(std::move(cloud));
}

using Doubles = nb::ndarray<const double, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Faces = nb::ndarray<const std::int64_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

// For formats that other libraries parse: columns (C, N) and their names.
nb::dict finish_cloud(const std::string& format, const std::vector<std::string>& names,
                      const std::vector<unsigned>& bits, Doubles columns, std::optional<Faces> faces, bool strict) {
  if (columns.shape(0) != names.size() || bits.size() != names.size()) throw nb::value_error("one name per column");
  bipointnet::clouds::Parsed parsed;
  parsed.format = format;
  const std::size_t count = columns.shape(1);
  for (std::size_t i = 0; i < names.size(); ++i) {
    const double* values = columns.data() + i * count;
    parsed.columns.push_back({names[i], bits[i], {values, values + count}});
  }
  if (faces) parsed.faces.assign(faces->data(), faces->data() + faces->size());
  bipointnet::clouds::Cloud cloud;
  {
    nb::gil_scoped_release unlocked;
    cloud = bipointnet::clouds::finish(std::move(parsed), strict);
  }
  return cloud_dict(std::move(cloud));
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
  nb::exception<bipointnet::clouds::CloudError>(module, "CloudError", PyExc_ValueError);
  module.def("read_cloud", &read_cloud, nb::arg("data"), nb::arg("name"),
             nb::arg("columns") = std::vector<std::string>(), nb::arg("strict") = false,
             "The cloud or mesh in the bytes of a file; its name gives the format. See core/src/clouds/cloud.h.");
  module.def("finish_cloud", &finish_cloud, nb::arg("format"), nb::arg("names"), nb::arg("bits"), nb::arg("columns"),
             nb::arg("faces").none(), nb::arg("strict"),
             "The cloud in the columns (C, N) of a file that another library has parsed.");
  module.def("cloud_suffixes", &bipointnet::clouds::cloud_suffixes, "The suffixes that read_cloud() accepts.");
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
