#include "iceberg/schema.h"

#include <arrow/util/key_value_metadata.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace thalweg::iceberg {
namespace {

using ::testing::HasSubstr;

arrow::Result<Schema> FromText(const std::string& text) {
  ARROW_ASSIGN_OR_RAISE(Json json, ParseJson(text, "test"));
  return Schema::FromJson(json);
}

// Without regard to the order of keys.
nlohmann::json Unordered(std::string_view text) { return nlohmann::json::parse(text); }

// What PyIceberg 0.12 makes of the Arrow schema below:
// assign_fresh_schema_ids(_pyarrow_to_schema_without_ids(…)).
constexpr char kAssigned[] = R"json({"type":"struct","fields":[
{"id":1,"name":"id","type":"long","required":true},
{"id":2,"name":"point","type":{"type":"struct","fields":[
  {"id":9,"name":"x","type":"double","required":true},
  {"id":10,"name":"tags","type":{"type":"list","element-id":12,"element":"string","element-required":true},"required":false},
  {"id":11,"name":"y","type":"float","required":false}]},"required":false},
{"id":3,"name":"attrs","type":{"type":"map","key-id":13,"key":"string","value-id":14,"value":{"type":"struct","fields":[
  {"id":15,"name":"k","type":"int","required":false},
  {"id":16,"name":"v","type":"binary","required":false}]},"value-required":false},"required":false},
{"id":4,"name":"price","type":"decimal(12, 2)","required":false},
{"id":5,"name":"at","type":"timestamptz","required":false},
{"id":6,"name":"day","type":"date","required":false},
{"id":7,"name":"nested","type":{"type":"list","element-id":17,"element":{"type":"list","element-id":18,
  "element":{"type":"struct","fields":[{"id":19,"name":"deep","type":"time","required":false}]},
  "element-required":false},"element-required":false},"required":false},
{"id":8,"name":"raw","type":"fixed[16]","required":false}],"schema-id":0})json";

std::shared_ptr<arrow::Schema> ArrowSchema() {
  using namespace arrow;  // NOLINT
  return schema({field("id", int64(), false),
                 field("point", struct_({field("x", float64(), false),
                                         field("tags", list(field("element", utf8(), false))),
                                         field("y", float32())})),
                 field("attrs", map(utf8(), struct_({field("k", int32()), field("v", binary())}))),
                 field("price", decimal128(12, 2)), field("at", timestamp(TimeUnit::MICRO, "UTC")),
                 field("day", date32()),
                 field("nested", list(list(struct_({field("deep", time64(TimeUnit::MICRO))})))),
                 field("raw", fixed_size_binary(16))});
}

TEST(Schema, FromArrowAssignsIdsAsTheReferenceDoes) {
  auto schema = Schema::FromArrow(*ArrowSchema());
  ASSERT_TRUE(schema.ok()) << schema.status();
  EXPECT_EQ(Unordered(DumpJson(schema->ToJson())), Unordered(kAssigned));
}

std::string FieldId(const arrow::Field& field) {
  return field.metadata() ? field.metadata()->Get("PARQUET:field_id").ValueOr("none") : "none";
}

TEST(Schema, ToArrow) {
  auto schema = FromText(kAssigned).ValueOrDie();
  auto arrow = schema.ToArrow().ValueOrDie();
  // Names, types and nullability as they came; the list items are called "element".
  auto from = ArrowSchema();
  auto nested = arrow::list(arrow::field(
      "element", arrow::list(arrow::field(
                     "element", from->field(6)->type()->field(0)->type()->field(0)->type()))));
  auto expected = from->SetField(6, arrow::field("nested", nested)).ValueOrDie();
  EXPECT_TRUE(arrow->Equals(*expected, /*check_metadata=*/false)) << arrow->ToString();

  EXPECT_EQ(FieldId(*arrow->field(0)), "1");
  const auto& point = *arrow->field(1);
  EXPECT_EQ(FieldId(point), "2");
  EXPECT_EQ(FieldId(*point.type()->field(1)), "10");
  EXPECT_EQ(FieldId(*point.type()->field(1)->type()->field(0)), "12");
  const auto& map = static_cast<const arrow::MapType&>(*arrow->field(2)->type());
  EXPECT_EQ(FieldId(*map.key_field()), "13");
  EXPECT_EQ(FieldId(*map.item_field()), "14");
  EXPECT_EQ(FieldId(*map.item_type()->field(1)), "16");
  EXPECT_EQ(FieldId(*arrow->field(6)->type()->field(0)->type()->field(0)->type()->field(0)), "19");
  // And back: the same types, though ids are assigned anew (which gives the same ones here).
  EXPECT_EQ(Schema::FromArrow(*arrow).ValueOrDie().ToJson(), schema.ToJson());
}

TEST(Schema, EveryPrimitiveToArrow) {
  auto schema = FromText(R"json({"type":"struct","schema-id":1,"fields":[
    {"id":1,"name":"a","required":true,"type":"boolean"},{"id":2,"name":"b","required":true,"type":"int"},
    {"id":3,"name":"c","required":true,"type":"long"},{"id":4,"name":"d","required":true,"type":"float"},
    {"id":5,"name":"e","required":true,"type":"double"},{"id":6,"name":"f","required":true,"type":"decimal(38,10)"},
    {"id":7,"name":"g","required":true,"type":"date"},{"id":8,"name":"h","required":true,"type":"time"},
    {"id":9,"name":"i","required":true,"type":"timestamp"},{"id":10,"name":"j","required":true,"type":"timestamptz"},
    {"id":11,"name":"k","required":true,"type":"timestamp_ns"},{"id":12,"name":"l","required":true,"type":"timestamptz_ns"},
    {"id":13,"name":"m","required":true,"type":"string"},{"id":14,"name":"n","required":true,"type":"uuid"},
    {"id":15,"name":"o","required":true,"type":"fixed[7]"},{"id":16,"name":"p","required":true,"type":"binary"}]})json")
                    .ValueOrDie();
  using arrow::TimeUnit;
  const std::vector<std::shared_ptr<arrow::DataType>> types = {
      arrow::boolean(),
      arrow::int32(),
      arrow::int64(),
      arrow::float32(),
      arrow::float64(),
      arrow::decimal128(38, 10),
      arrow::date32(),
      arrow::time64(TimeUnit::MICRO),
      arrow::timestamp(TimeUnit::MICRO),
      arrow::timestamp(TimeUnit::MICRO, "UTC"),
      arrow::timestamp(TimeUnit::NANO),
      arrow::timestamp(TimeUnit::NANO, "UTC"),
      arrow::utf8(),
      arrow::fixed_size_binary(16),
      arrow::fixed_size_binary(7),
      arrow::binary()};
  auto arrow = schema.ToArrow().ValueOrDie();
  ASSERT_EQ(arrow->num_fields(), 16);
  for (int i = 0; i < 16; ++i) {
    EXPECT_TRUE(arrow->field(i)->type()->Equals(types[i])) << i;
    EXPECT_FALSE(arrow->field(i)->nullable());
    EXPECT_EQ(FieldId(*arrow->field(i)), std::to_string(i + 1));
  }
  EXPECT_EQ(schema.fields[5].type->ToString(), "decimal(38, 10)");
  EXPECT_EQ(schema.fields[5].type->scale, 10);
  EXPECT_EQ(schema.fields[14].type->length, 7);
}

TEST(Schema, FromArrowWidens) {
  using namespace arrow;  // NOLINT
  const std::vector<std::pair<std::shared_ptr<DataType>, std::string>> cases = {
      {int8(), "int"},
      {int16(), "int"},
      {uint8(), "int"},
      {uint16(), "int"},
      {uint32(), "long"},
      {float16(), "float"},
      {large_utf8(), "string"},
      {utf8_view(), "string"},
      {dictionary(int32(), utf8()), "string"},
      {large_binary(), "binary"},
      {binary_view(), "binary"},
      {date64(), "date"},
      {time32(TimeUnit::SECOND), "time"},
      {timestamp(TimeUnit::SECOND), "timestamp"},
      {timestamp(TimeUnit::MILLI, "Europe/Rome"), "timestamptz"},
      {timestamp(TimeUnit::NANO), "timestamp_ns"},
      {timestamp(TimeUnit::NANO, "UTC"), "timestamptz_ns"},
      {decimal256(38, 2), "decimal(38, 2)"},
      {decimal32(5, 1), "decimal(5, 1)"},
      {large_list(int64()), "list<long>"},
      {fixed_size_list(utf8(), 3), "list<string>"}};
  for (const auto& [type, name] : cases) {
    auto schema = Schema::FromArrow(*arrow::schema({field("c", type)}));
    ASSERT_TRUE(schema.ok()) << schema.status();
    EXPECT_EQ(schema->fields[0].type->ToString(), name);
    EXPECT_FALSE(schema->fields[0].required);
  }
  for (const auto& type :
       {uint64(), duration(TimeUnit::SECOND), month_interval(), null(), decimal256(50, 2),
        decimal128(5, -2), time64(TimeUnit::NANO), dense_union({field("u", int32())})}) {
    auto schema = Schema::FromArrow(*arrow::schema({field("s", struct_({field("bad", type)}))}));
    ASSERT_FALSE(schema.ok()) << type->ToString();
    EXPECT_THAT(schema.status().message(), HasSubstr("column \"s.bad\" has type"));
  }
  EXPECT_THAT(Schema::FromArrow(*arrow::schema({field("a", int32()), field("a", int32())}))
                  .status()
                  .message(),
              HasSubstr("two columns are called \"a\""));
}

constexpr char kRich[] =
    R"json({"type":"struct","schema-id":4,"identifier-field-ids":[1,3],"fields":[
{"id":1,"name":"a","required":true,"type":"int","doc":"the key","initial-default":5,"write-default":6},
{"id":9,"name":"v","required":false,"type":"variant"},
{"id":10,"name":"g","required":false,"type":"geometry(srid:4326)","doc":"where"},
{"id":11,"name":"strange","required":false,"type":{"type":"vector","of":"float","length":3}},
{"id":2,"name":"s","required":true,"type":{"type":"struct","fields":[
  {"id":3,"name":"b","required":true,"type":"string","write-default":"x"}]}},
{"id":4,"name":"m","required":false,"type":{"type":"map","key-id":5,"key":"int","value-id":6,"value":
  {"type":"list","element-id":7,"element":"uuid","element-required":true},"value-required":true}}]})json";

TEST(Schema, RoundTrip) {
  auto schema = FromText(kRich).ValueOrDie();
  EXPECT_EQ(Unordered(DumpJson(schema.ToJson())), Unordered(kRich));
  EXPECT_EQ(schema.schema_id, 4);
  EXPECT_EQ(schema.fields[0].doc, "the key");
  EXPECT_EQ(schema.fields[0].initial_default, 5);
  EXPECT_EQ(schema.fields[1].type->kind, TypeKind::kVariant);
  EXPECT_EQ(schema.fields[2].type->kind, TypeKind::kGeometry);
  EXPECT_EQ(schema.fields[2].type->text, "geometry(srid:4326)");
  EXPECT_EQ(schema.fields[3].type->kind, TypeKind::kOther);
  EXPECT_FALSE(schema.fields[1].type->primitive());
  EXPECT_THAT(schema.ToArrow().status().message(),
              HasSubstr("column \"strange\" has type {\"type\":\"vector\""));
}

TEST(Schema, FixedTypesHaveALimit) {
  auto schema =
      FromText(R"({"fields":[{"id":1,"name":"a","required":false,"type":"fixed[2147483647]"}]})");
  ASSERT_TRUE(schema.ok()) << schema.status();
  EXPECT_THAT(schema->ToArrow().status().message(), HasSubstr("\"a\" has type fixed[2147483647]"));
}

TEST(Schema, Lookups) {
  auto schema = FromText(kRich).ValueOrDie();
  EXPECT_EQ(schema.HighestFieldId(), 11);
  EXPECT_EQ(schema.FindTopLevel("s")->id, 2);
  EXPECT_EQ(schema.FindTopLevel("S"), nullptr);
  EXPECT_EQ(schema.FindTopLevel("b"), nullptr);
  EXPECT_EQ(schema.FindById(3)->name, "b");
  EXPECT_EQ(schema.FindById(7)->name, "element");
  EXPECT_EQ(schema.FindById(8), nullptr);
  EXPECT_EQ(schema.TopLevelPosition(4), 5);
  EXPECT_EQ(schema.TopLevelPosition(3), -1);
  std::vector<std::string> leaves;
  for (const auto& leaf : schema.Leaves()) {
    leaves.push_back(fmt::format("{}:{}:{}", leaf.path, leaf.field->id, leaf.in_repeated));
  }
  EXPECT_THAT(leaves,
              ::testing::ElementsAre("a:1:false", "v:9:false", "g:10:false", "strange:11:false",
                                     "s.b:3:false", "m.key:5:true", "m.value.element:7:true"));
}

TEST(Schema, TypeEquality) {
  auto a = FromText(kAssigned).ValueOrDie();
  auto b = FromText(kAssigned).ValueOrDie();
  for (size_t i = 0; i < a.fields.size(); ++i) {
    for (size_t j = 0; j < b.fields.size(); ++j) {
      EXPECT_EQ(a.fields[i].type->Equals(*b.fields[j].type), i == j) << i << j;
    }
  }
  std::string other = kAssigned;
  other.replace(other.find("\"id\":9"), 6, "\"id\":99");
  auto c = FromText(other).ValueOrDie();
  EXPECT_FALSE(a.fields[1].type->Equals(*c.fields[1].type));
  EXPECT_TRUE(a.fields[1].type->Equals(*c.fields[1].type, /*check_ids=*/false));
}

TEST(Schema, Errors) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"[]", "expected an object"},
      {"{}", "\"fields\" is missing"},
      {R"({"fields":3})", "\"fields\" is not an array"},
      {R"({"fields":[7]})", "expected an object"},
      {R"({"fields":[{"id":1,"name":"a","required":true}]})", "field \"a\" has no type"},
      {R"({"fields":[{"id":1,"name":"a","type":"int"}]})", "\"required\" is missing"},
      {R"({"fields":[{"id":-1,"name":"a","required":true,"type":"int"}]})", "\"id\" is -1"},
      {R"({"fields":[{"id":4294967297,"name":"a","required":true,"type":"int"}]})", "4294967297"},
      {R"json({"fields":[{"id":1,"name":"a","required":true,"type":"decimal(39, 0)"}]})json",
       "decimal(39, 0)"},
      {R"json({"fields":[{"id":1,"name":"a","required":true,"type":"decimal(9, 10)"}]})json",
       "decimal(9, 10)"},
      {R"({"fields":[{"id":1,"name":"a","required":true,"type":"fixed[-1]"}]})", "fixed[-1]"},
      {R"({"fields":[{"id":1,"name":"a","required":true,"type":{"type":"list","element-id":2}}]})",
       "element-required"},
      {R"({"fields":[{"id":1,"name":"a","required":true,"type":"int"},{"id":1,"name":"b","required":true,"type":"int"}]})",
       "field id 1 is there twice"},
      {R"({"fields":[{"id":1,"name":"a","required":true,"type":"int"},{"id":2,"name":"a","required":true,"type":"int"}]})",
       "two fields are called \"a\""},
      {R"({"identifier-field-ids":[2],"fields":[{"id":1,"name":"a","required":true,"type":"int"}]})",
       "\"identifier-field-ids\" names 2"}};
  for (const auto& [text, message] : cases) {
    auto schema = FromText(text);
    ASSERT_FALSE(schema.ok()) << text;
    EXPECT_THAT(schema.status().message(), HasSubstr(message)) << text;
  }
}

}  // namespace
}  // namespace thalweg::iceberg
