// The contract never breaks: what was released (the committed descriptor set) must still be there, unchanged.
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "google/protobuf/descriptor.pb.h"
#include "tests/support/catch.h"
#include "tributary/v1/admin_service.pb.h"
#include "tributary/v1/embedding_service.pb.h"

namespace tributary {
namespace {

using google::protobuf::DescriptorProto;
using google::protobuf::EnumDescriptorProto;
using google::protobuf::FieldDescriptorProto;
using google::protobuf::FileDescriptorProto;
using google::protobuf::ServiceDescriptorProto;

template <typename Elements>
auto Find(const Elements& elements, const std::string& name) -> decltype(&elements[0]) {
  for (const auto& element : elements) {
    if (element.name() == name) return &element;
  }
  return nullptr;
}

// What a client compiled against `old_file` could stumble over when it talks to a server of `new_file`. Empty: nothing.
class Comparison {
 public:
  Comparison(const FileDescriptorProto& old_file, const FileDescriptorProto& new_file) {
    if (old_file.package() != new_file.package()) Add("package", "changed");
    Messages("", old_file.message_type(), new_file.message_type());
    Enums("", old_file.enum_type(), new_file.enum_type());
    for (const ServiceDescriptorProto& service : old_file.service()) {
      const auto* now = Find(new_file.service(), service.name());
      now == nullptr ? Add(service.name(), "removed") : Methods(service, *now);
    }
  }
  const std::vector<std::string>& breaks() const { return breaks_; }

 private:
  void Add(const std::string& what, const std::string& how) { breaks_.push_back(what + " " + how); }

  template <typename Elements>
  void Messages(const std::string& scope, const Elements& old_messages, const Elements& new_messages) {
    for (const DescriptorProto& message : old_messages) {
      const std::string name = scope + message.name();
      const auto* now = Find(new_messages, message.name());
      if (now == nullptr) {
        Add(name, "removed");
        continue;
      }
      Fields(name, message, *now);
      Messages(name + ".", message.nested_type(), now->nested_type());
      Enums(name + ".", message.enum_type(), now->enum_type());
    }
  }

  static std::string OneofName(const DescriptorProto& message, const FieldDescriptorProto& field) {
    return field.has_oneof_index() ? message.oneof_decl(field.oneof_index()).name() : "";
  }

  void Fields(const std::string& message_name, const DescriptorProto& message, const DescriptorProto& new_message) {
    for (const FieldDescriptorProto& field : message.field()) {
      const std::string name = message_name + "." + field.name();
      const auto* now = Find(new_message.field(), field.name());
      if (now == nullptr) {
        Add(name, "removed");
      } else if (now->number() != field.number()) {
        Add(name, "renumbered");
      } else if (now->type() != field.type() || now->type_name() != field.type_name() ||
                 now->label() != field.label() || now->proto3_optional() != field.proto3_optional() ||
                 OneofName(message, field) != OneofName(new_message, *now)) {
        Add(name, "retyped");
      }
    }
  }

  template <typename Elements>
  void Enums(const std::string& scope, const Elements& old_enums, const Elements& new_enums) {
    for (const EnumDescriptorProto& type : old_enums) {
      const std::string name = scope + type.name();
      const auto* now = Find(new_enums, type.name());
      if (now == nullptr) {
        Add(name, "removed");
        continue;
      }
      for (const auto& value : type.value()) {
        const auto* new_value = Find(now->value(), value.name());
        if (new_value == nullptr) {
          Add(name + "." + value.name(), "removed");
        } else if (new_value->number() != value.number()) {
          Add(name + "." + value.name(), "renumbered");
        }
      }
    }
  }

  void Methods(const ServiceDescriptorProto& service, const ServiceDescriptorProto& new_service) {
    for (const auto& method : service.method()) {
      const std::string name = service.name() + "." + method.name();
      const auto* now = Find(new_service.method(), method.name());
      if (now == nullptr) {
        Add(name, "removed");
      } else if (now->input_type() != method.input_type() || now->output_type() != method.output_type() ||
                 now->client_streaming() != method.client_streaming() ||
                 now->server_streaming() != method.server_streaming()) {
        Add(name, "retyped");
      }
    }
  }

  std::vector<std::string> breaks_;
};

template <typename Message = v1::EmbedTextRequest>
FileDescriptorProto Compiled() {
  FileDescriptorProto file;
  Message::descriptor()->file()->CopyTo(&file);
  return file;
}

FileDescriptorProto Committed(const std::string& name) {
  std::ifstream in(TRIBUTARY_SOURCE_DIR "/proto/tributary/v1/" + name + ".binpb", std::ios::binary);
  google::protobuf::FileDescriptorSet set;
  REQUIRE(set.ParseFromIstream(&in));
  REQUIRE(set.file_size() == 1);
  return set.file(0);
}

template <typename Elements>
void Remove(Elements* elements, const std::string& name) {
  for (int i = 0; i < elements->size(); ++i) {
    if (elements->Get(i).name() == name) {
      elements->DeleteSubrange(i, 1);
      return;
    }
  }
  FAIL(name + " is not there");
}

using Breaks = std::vector<std::string>;

TEST_CASE("nothing of the committed contract has been removed, renumbered or retyped") {
  CHECK(Comparison(Committed("embedding_service"), Compiled()).breaks() == Breaks{});
  CHECK(Comparison(Committed("admin_service"), Compiled<v1::LoadModelRequest>()).breaks() == Breaks{});
}

TEST_CASE("additions to the contract are no break") {
  FileDescriptorProto older = Compiled();
  Remove(older.mutable_message_type(), "StageTimes");
  Remove(older.mutable_enum_type(), "Priority");
  Remove(older.mutable_service(0)->mutable_method(), "GetModel");
  Remove(older.mutable_enum_type(0)->mutable_value(), "TRUNCATION_START");
  CHECK(Comparison(older, Compiled()).breaks() == Breaks{});
}

TEST_CASE("every kind of break is found and named") {
  const FileDescriptorProto old_file = Compiled();
  auto breaks_after = [&](auto change) {
    FileDescriptorProto changed = old_file;
    change(&changed);
    return Comparison(old_file, changed).breaks();
  };
  auto message = [](FileDescriptorProto* file, const std::string& name) {
    return const_cast<DescriptorProto*>(Find(file->message_type(), name));
  };
  auto field = [&](FileDescriptorProto* file, const std::string& in, const std::string& name) {
    return const_cast<FieldDescriptorProto*>(Find(message(file, in)->field(), name));
  };
  CHECK(breaks_after([&](auto* f) { Remove(message(f, "Model")->mutable_field(), "fusion"); }) ==
        Breaks{"Model.fusion removed"});
  CHECK(breaks_after([&](auto* f) { field(f, "Model", "name")->set_number(99); }) == Breaks{"Model.name renumbered"});
  CHECK(breaks_after([&](auto* f) { field(f, "Model", "dimensions")->set_type(FieldDescriptorProto::TYPE_UINT64); }) ==
        Breaks{"Model.dimensions retyped"});
  CHECK(breaks_after([&](auto* f) { field(f, "Model", "name")->set_label(FieldDescriptorProto::LABEL_REPEATED); }) ==
        Breaks{"Model.name retyped"});
  CHECK(breaks_after([&](auto* f) { field(f, "PairInput", "text")->set_type_name(".tributary.v1.ImageInput"); }) ==
        Breaks{"PairInput.text retyped"});
  CHECK(breaks_after([&](auto* f) { field(f, "TextInput", "text")->clear_oneof_index(); }) ==
        Breaks{"TextInput.text retyped"});
  CHECK(breaks_after([&](auto* f) { Remove(f->mutable_message_type(), "RawRgb"); }) == Breaks{"RawRgb removed"});
  CHECK(breaks_after([&](auto* f) { Remove(f->mutable_enum_type(), "Encoding"); }) == Breaks{"Encoding removed"});
  CHECK(breaks_after([&](auto* f) { f->mutable_enum_type(0)->mutable_value(2)->set_number(9); }) ==
        Breaks{"Truncation.TRUNCATION_END renumbered"});
  CHECK(breaks_after([&](auto* f) { Remove(f->mutable_enum_type(0)->mutable_value(), "TRUNCATION_END"); }) ==
        Breaks{"Truncation.TRUNCATION_END removed"});
  CHECK(breaks_after([&](auto* f) { Remove(f->mutable_service(0)->mutable_method(), "EmbedText"); }) ==
        Breaks{"EmbeddingService.EmbedText removed"});
  CHECK(breaks_after([&](auto* f) { f->mutable_service(0)->mutable_method(3)->set_server_streaming(false); }) ==
        Breaks{"EmbeddingService.EmbedStream retyped"});
  CHECK(breaks_after([&](auto* f) { f->mutable_service()->Clear(); }) == Breaks{"EmbeddingService removed"});
  CHECK(breaks_after([&](auto* f) { f->set_package("tributary.v2"); }) == Breaks{"package changed"});
}

}  // namespace
}  // namespace tributary
