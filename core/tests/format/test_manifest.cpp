// The keys of the manifest: names, task, categories, parts and the golden vector.
#include "format/block_layout.h"
#include "format/format_errors.h"
#include "format/json.h"

using namespace bipointnet;

namespace {

const std::string kPoints = operation("points", {}, {"points"});

void test_the_keys_are_checked() {
  const PackedFile file = full_file();
  const auto with = [&](const std::string& from, const std::string& to) {
    return error_after_manifest(file, from, to);
  };
  CHECK_ERROR(with("\"format\":2", "\"format\":1"), "manifest: format 1, expected 2");
  CHECK_ERROR(with("\"format\":2", "\"format\":3"), "manifest: format 3, expected");
  CHECK_ERROR(with("\"format\":2", "\"format\":\"2\""), "manifest: format \"2\"");
  CHECK_ERROR(with("\"format\":2", "\"format\":2.0"), "manifest: format 2.0");
  for (const char* key :
       {"format", "model", "task", "classes", "channels", "normalize", "program", "golden", "training"}) {
    const std::string name = json_string(key) + ":";
    CHECK_ERROR(with(name, "\"x\":"), std::string(key) == "format" ? "manifest: no key format" : "manifest: key \"x\"");
    CHECK_ERROR(with(name, name + "null,\"x\":"), "manifest: ");
  }
  CHECK_ERROR(with(",\"training\":{\"accuracy\":0.5}", ""), "manifest: no key training");
  CHECK_ERROR(with("\"model\":\"made up\"", "\"model\":7"), "manifest: model 7, expected a string");
  CHECK_ERROR(with("{\"accuracy\":0.5}", "[]"), "manifest: training a list, expected an object");
  CHECK_ERROR(with("[\"chair\",\"t\\u00e4sse\"]", "[]"), "manifest: classes with 0 items, expected 1 to 32766");
  CHECK_ERROR(with("[\"chair\",\"t\\u00e4sse\"]", "{}"), "manifest: classes an object, expected a list");
  CHECK_ERROR(with("\"chair\"", "3"), "manifest: class 0: 3, expected a string");
  CHECK_ERROR(with("\"chair\"", "\"c\\u0000\""), "manifest: class 0: \"c?\"");
  CHECK_ERROR(with("\"channels\":3", "\"channels\":2"), "manifest: channels 2, expected an integer from 3 to 256");
  CHECK_ERROR(with("\"channels\":3", "\"channels\":257"), "manifest: channels 257");
  CHECK_ERROR(with("\"channels\":3", "\"channels\":6"), "tnet.weight: shape [9, 3], expected [9, 6]");
  CHECK_ERROR(with("\"sphere\"", "\"cube\""), "manifest: normalize \"cube\", expected sphere, box or none");
  const auto limited = [&](const std::string& most) { return with("\"sphere\"", "\"sphere\",\"max_points\":" + most); };
  CHECK_EQUAL(limited("1"), "");
  CHECK_EQUAL(limited("4294967295"), "");
  CHECK_ERROR(limited("0"), "manifest: max_points 0, expected an integer from 1 to 4294967295");
  CHECK_ERROR(limited("4294967296"), "manifest: max_points 4294967296");
  CHECK_ERROR(limited("1.5"), "manifest: max_points 1.5");
  CHECK_ERROR(error_after_manifest(segments_file(), "\"normalize\"", "\"max_points\":5,\"normalize\""),
              "manifest: max_points with task part, expected task classify");
}

void test_blocks_are_checked() {
  CHECK_ERROR(error_after_manifest(segments_file(), "\"normalize\"", "\"blocks\":{},\"normalize\""),
              "manifest: blocks with task part, expected task semantic");
  const auto read = [](const std::string& text, int channels) -> std::string {
    const Json json(text, "manifest");
    try {
      read_blocks(json.root(), "blocks", channels);
      return "";
    } catch (const FormatError& error) {
      return error.what();
    }
  };
  const auto with = [&](const std::string& side, const std::string& channels, int count) {
    return read("{\"side\":" + side + ",\"unit\":\"m\",\"up\":\"z\",\"channels\":[" + channels + "]}", count);
  };
  const std::string xyz = "\"x\",\"y\",\"height\"";
  const std::string intensity = "{\"field\":\"intensity\",\"scale\":2500}";
  CHECK_EQUAL(with("20", xyz, 3), "");
  CHECK_EQUAL(with("0.5", xyz + ",\"red\",\"green\",\"blue\"," + intensity + ",\"x/size\"", 8), "");
  CHECK_ERROR(with("0", xyz, 3), "blocks: side 0, expected 1/1024 to 1048576 meters");
  CHECK_ERROR(with("-1", xyz, 3), "blocks: side -1");
  CHECK_ERROR(with("1e9", xyz, 3), "blocks: side 1e9");
  CHECK_ERROR(with("\"1\"", xyz, 3), "blocks: side \"1\", expected a number");
  CHECK_ERROR(with("1", xyz, 4), "blocks: channels with 3 items, expected 4");
  CHECK_ERROR(with("1", "\"y\",\"x\",\"z\"", 3), "blocks: the first channels y, x and z, expected x, y, and z or height");
  CHECK_ERROR(with("1", "\"x\",\"y\",\"red\"", 3), "blocks: the first channels x, y and red");
  CHECK_ERROR(with("1", xyz + ",\"x\"", 4), "blocks: channel 3: \"x\", expected each channel once");
  CHECK_ERROR(with("1", xyz + ",\"intensity\"", 4), "blocks: channel 3: \"intensity\", expected x, y, z, height,");
  CHECK_ERROR(with("1", xyz + ",7", 4), "blocks: channel 3: 7, expected an object");
  CHECK_ERROR(with("1", xyz + "," + intensity + "," + intensity, 5), "blocks: channel 4: an object, expected each channel once");
  const auto field = [&](const std::string& name, const std::string& scale) {
    return with("1", xyz + ",{\"field\":" + name + ",\"scale\":" + scale + "}", 4);
  };
  CHECK_EQUAL(field("\"nx\"", "1"), "");
  CHECK_ERROR(field("\"red\"", "1"), "blocks: channel 3: field \"red\", expected the name of a column that is not a color");
  CHECK_ERROR(field("\"x\"", "1"), "blocks: channel 3: field \"x\", expected a name that is not a coordinate");
  CHECK_ERROR(field("\"\"", "1"), "blocks: channel 3: field \"\"");
  CHECK_ERROR(field("\"a\\u0000\"", "1"), "blocks: channel 3: field");
  CHECK_ERROR(field("\"a\"", "0"), "blocks: channel 3: scale 0, expected a number above 0");
  CHECK_ERROR(field("\"a\"", "-2"), "blocks: channel 3: scale -2");
  CHECK_ERROR(field("\"a\"", "1e300"), "blocks: channel 3: scale 1e300");
  CHECK_ERROR(read("{\"side\":1,\"unit\":\"ft\",\"up\":\"z\",\"channels\":[]}", 3), "blocks: unit \"ft\", expected m");
  CHECK_ERROR(read("{\"side\":1,\"unit\":\"m\",\"up\":\"y\",\"channels\":[]}", 3), "blocks: up \"y\", expected z");
  CHECK_ERROR(read("{\"side\":1,\"unit\":\"m\",\"up\":\"z\"}", 3), "blocks: no key channels");
  CHECK_ERROR(read("[]", 3), "blocks: a list, expected an object");
}

void test_the_golden_vector_is_checked() {
  const PackedFile file = full_file();
  const auto with = [&](const std::string& from, const std::string& to) {
    return error_after_manifest(file, from, to);
  };
  CHECK_ERROR(with("9007199254740991", "9007199254740992"), "golden: seed 9007199254740992");
  CHECK_ERROR(with("9007199254740991", "-1"), "golden: seed -1");
  CHECK_EQUAL(with("9007199254740991", "0"), "");
  CHECK_ERROR(with("\"points\":17", "\"points\":0"), "golden: points 0, expected an integer from 1 to 4096");
  CHECK_ERROR(with("\"points\":17", "\"points\":4097"), "golden: points 4097");
  CHECK_EQUAL(with("\"points\":17", "\"points\":4096"), "");
  CHECK_ERROR(with("1e-4", "-1e-4"), "golden: tolerance -1e-4, expected 0 or more");
  CHECK_ERROR(with("1e-4", "1e999"), "golden: tolerance 1e999, expected a number");
  CHECK_ERROR(with("1e-4", "NaN"), "manifest: byte");
  CHECK_ERROR(with("1e-4", "true"), "golden: tolerance true");
  CHECK_ERROR(with("\"tolerance\":1e-4", "\"tolerance\":0,\"x\":0"), "golden: key \"x\"");
  CHECK_ERROR(with(",\"tolerance\":1e-4", ""), "golden: no key tolerance");
}

void test_the_golden_vector_has_one_row_per_point() {
  const auto shaped = [](const std::string& shape) {
    return error_after(segments_file(), [&](PackedFile& file) { file.tensor("golden").shape = shape; });
  };
  CHECK_ERROR(shaped("[2,17]"), "golden: shape [2, 17], expected [17, 2]");
  CHECK_ERROR(shaped("[34]"), "golden: shape [34], expected [17, 2]");
  CHECK_ERROR(error_after_manifest(segments_file(), "\"points\":17", "\"points\":16"),
              "golden: shape [17, 2], expected [16, 2]");
}

void test_the_task_is_checked() {
  const auto with = [](const PackedFile& file, const std::string& from, const std::string& to) {
    return error_after_manifest(file, "\"task\":\"" + from + "\"", to);
  };
  const PackedFile file = full_file();
  CHECK_ERROR(with(file, "classify", "\"task\":\"detect\""),
              "manifest: task \"detect\", expected classify, part or semantic");
  CHECK_ERROR(with(file, "classify", "\"task\":1"), "manifest: task 1, expected a string");
  CHECK_ERROR(with(file, "classify", "\"tasks\":\"classify\""), "manifest: key \"tasks\"");
  for (const char* task : {"part", "semantic"}) {
    CHECK_ERROR(with(file, "classify", std::string("\"task\":\"") + task + "\""),
                std::string("program: ends with floats over the cloud (2), expected floats over the points (2) for "
                            "task ") +
                    task);
  }
  for (const char* task : {"classify", "semantic"}) {
    CHECK_ERROR(with(segments_file(), "part", std::string("\"task\":\"") + task + "\""),
                std::string("manifest: categories with task ") + task + ", expected task part");
  }
  for (const char* task : {"part", "semantic"}) {
    PackedFile cloud;
    cloud.manifest = packed_manifest("[\"a\",\"b\",\"c\"]", "none", kPoints, task);
    cloud.add_f32("golden", {17, 3});
    CHECK_EQUAL(error_of(cloud.bytes()), "");
    CHECK_EQUAL(std::string(name_of(parse(cloud.bytes()).task)), task);
    cloud.manifest = replaced(cloud.manifest, "\"channels\"", "\"parts\":[[0]],\"channels\"");
    CHECK_ERROR(error_of(cloud.bytes()), task == std::string("part") ? "manifest: parts without categories, expected both"
                                                                     : "manifest: parts with task semantic");
  }
}

std::string with(const std::string& from, const std::string& to) {
  return error_after_manifest(segments_file(), from, to);
}

void test_categories_are_checked() {
  const std::string names = "\"categories\":[\"mug\",\"l\\u00e4mp\",\"x\"],";
  CHECK_ERROR(with(names + "\"parts\":[[0,1],[0,1],[0]],", ""),
              "operation 4 \"category\", category: no categories in the manifest, expected the key categories");
  CHECK_ERROR(with(names, "\"categories\":[],"), "manifest: categories with 0 items, expected 1 to 32766");
  CHECK_ERROR(with(names, "\"categories\":[\"mug\",7,\"x\"],"), "manifest: category 1: 7, expected a string");
  CHECK_ERROR(with(names, "\"categories\":[\"m\\u0000g\",\"l\",\"x\"],"), "manifest: category 0: \"m?g\"");
  CHECK_ERROR(with(names + "\"parts\":[[0,1],[0,1],[0]],", "\"categories\":[\"mug\"],"), "logits.weight: pad bits set");
  CHECK_ERROR(with(names, "\"category\":[\"mug\"],"), "manifest: key \"category\"");
  CHECK_ERROR(with(operation("category", {}, {"category"}),
                   program({operation("category", {}, {"category"}), operation("category", {}, {"second"})})),
              "operation 5 \"second\", category: a second operation category, expected at most one");
  PackedFile file;
  file.manifest =
      replaced(packed_manifest("[\"a\",\"b\",\"c\"]", "none", kPoints, "part"), "\"channels\"", names + "\"channels\"");
  file.add_f32("golden", {17, 3});
  CHECK_ERROR(error_of(file.bytes()), "manifest: categories without an operation category, expected both or neither");
}

void test_parts_are_checked() {
  const std::string parts = "\"parts\":[[0,1],[0,1],[0]],", rule = "expected ascending class numbers below 2";
  CHECK_EQUAL(with(parts, ""), "");
  CHECK_EQUAL(with(parts, "\"parts\":[[0,1],[0,1]],"), "manifest: parts with 2 items, expected 3");
  CHECK_ERROR(with(parts, "\"parts\":7,"), "manifest: parts 7, expected a list");
  CHECK_ERROR(with(parts, "\"parts\":[[0,1],[],[1]],"),
              "manifest: parts of category 1: a list, expected a list of at least one");
  CHECK_ERROR(with(parts, "\"parts\":[0,[0,1],[1]],"),
              "manifest: parts of category 0: 0, expected a list of at least one class");
  CHECK_ERROR(with(parts, "\"parts\":[[0,1],[1,0],[1]],"), "manifest: parts of category 1: 0, " + rule);
  CHECK_ERROR(with(parts, "\"parts\":[[0,1],[1,1],[1]],"), "manifest: parts of category 1: 1, " + rule);
  CHECK_ERROR(with(parts, "\"parts\":[[0,1],[0,1],[2]],"), "manifest: parts of category 2: 2, " + rule);
  CHECK_ERROR(with(parts, "\"parts\":[[-1],[0,1],[1]],"), "manifest: parts of category 0: -1, " + rule);
  CHECK_ERROR(with(parts, "\"parts\":[[\"a\"],[0,1],[1]],"), "manifest: parts of category 0: \"a\", " + rule);
  CHECK_ERROR(error_after_manifest(small_file(), "\"channels\"", parts + "\"channels\""),
              "manifest: parts with task classify, expected task part");
}

}  // namespace

int main() {
  test_the_keys_are_checked();
  test_blocks_are_checked();
  test_the_golden_vector_is_checked();
  test_the_golden_vector_has_one_row_per_point();
  test_the_task_is_checked();
  test_categories_are_checked();
  test_parts_are_checked();
  return check_report();
}
