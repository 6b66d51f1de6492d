#include "common/rpc/testing/raw_stream.h"

#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/slice.h>

#include <chrono>
#include <vector>

namespace ringmaster {
namespace {

std::string TextOf(const grpc::ByteBuffer& buffer) {
  std::vector<grpc::Slice> slices;
  std::string text;
  if (!buffer.Valid() || !buffer.Dump(&slices).ok()) return text;
  for (const grpc::Slice& slice : slices) {
    text.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  }
  return text;
}

}  // namespace

RawStream::RawStream(const std::shared_ptr<grpc::Channel>& channel,
                     const std::string& method)
    : stub_(channel) {
  context_.set_deadline(std::chrono::system_clock::now() +
                        std::chrono::seconds(40));
  call_ = stub_.PrepareCall(&context_, method, &queue_);
  call_->StartCall(this);
  Await();
}

RawStream::~RawStream() {
  context_.TryCancel();
  queue_.Shutdown();
  void* tag = nullptr;
  bool ok = false;
  while (queue_.Next(&tag, &ok)) {
  }
}

bool RawStream::Write(const std::string& bytes) {
  const grpc::Slice slice(bytes);
  call_->Write(grpc::ByteBuffer(&slice, 1), this);
  return Await();
}

bool RawStream::WritesDone() {
  call_->WritesDone(this);
  return Await();
}

std::string RawStream::Read() {
  grpc::ByteBuffer buffer;
  call_->Read(&buffer, this);
  return Await() ? TextOf(buffer) : "";
}

grpc::Status RawStream::Finish() {
  grpc::Status status;
  call_->Finish(&status, this);
  Await();
  return status;
}

bool RawStream::Await() {
  void* tag = nullptr;
  bool ok = false;
  queue_.Next(&tag, &ok);
  return ok;
}

std::string HealthRequest(const std::string& service) {
  return std::string("\x0a") + static_cast<char>(service.size()) + service;
}

}  // namespace ringmaster
