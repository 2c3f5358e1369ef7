#include "graph/parser.h"

namespace magis {
namespace {

std::vector<int64_t> parse_lengths(Lexer& lexer, char open, char close, std::string_view what) {
  std::vector<int64_t> lengths;
  lengths.reserve(4);
  if (!lexer.take_punctuation(open)) {
    lexer.fail_expected("`" + std::string(1, open) + "` before the " + std::string(what));
  }
  if (lexer.take_punctuation(close)) return lengths;
  do {
    const Token length = lexer.expect(TokenKind::integer, "an integer");
    if (length.integer < 0)
      lexer.fail(length, "negative " + std::string(what) + " are not possible");
    lengths.push_back(length.integer);
  } while (lexer.take_punctuation(','));
  if (!lexer.take_punctuation(close)) {
    lexer.fail_expected("`" + std::string(1, close) + "` after the " + std::string(what));
  }
  return lengths;
}

}  // namespace

ParsedType parse_type(Lexer& lexer) {
  ParsedType parsed;
  Type& type = parsed.type;
  const Token word = lexer.expect(TokenKind::word, "a type");
  if (word.text == "none") {
    type.defined = false;
    return parsed;
  }
  const std::optional<DType> dtype = parse_dtype(word.text);
  if (!dtype) {
    lexer.fail(word, "`" + std::string(word.text) +
                         "` is not a dtype; dtypes are f64 f32 f16 bf16 i64 i32 i16 i8 u8 u16 u32 "
                         "u64 bool c64 c128 f8e4m3fn f8e5m2");
  }
  type.dtype = *dtype;
  type.shape = parse_lengths(lexer, '[', ']', "lengths");
  if (lexer.at_punctuation('{')) {
    const Token open = lexer.peek();
    type.strides = parse_lengths(lexer, '{', '}', "strides");
    if (type.strides.size() != type.shape.size()) {
      lexer.fail(open, "expected a stride for each of " + std::to_string(type.shape.size()) +
                           " dimensions, found " + std::to_string(type.strides.size()));
    }
  } else {
    type.strides.assign(type.shape.size(), 0);
    // Overflow shows in the number of elements, which does not depend on strides.
    if (has_representable_size(type)) type.strides = contiguous_strides(type.shape);
  }
  if (lexer.take_punctuation('+')) {
    const Token offset = lexer.expect(TokenKind::integer, "the storage offset");
    if (offset.integer < 0) lexer.fail(offset, "a storage offset is not negative");
    type.offset = offset.integer;
  }
  if (!has_representable_size(type)) lexer.fail(word, "the tensor is too large");
  type.storage = minimal_storage(type);
  if (lexer.take_punctuation('/')) {
    const Token storage = lexer.expect(TokenKind::integer, "the bytes of the storage");
    if (storage.integer < type.storage) {
      lexer.fail(storage, "the storage is too small: " + to_text(type) + " needs " +
                              std::to_string(type.storage) + " bytes");
    }
    type.storage = storage.integer;
    parsed.storage_given = true;
  }
  return parsed;
}

}  // namespace magis
