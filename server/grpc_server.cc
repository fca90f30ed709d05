#include "server/grpc_server.h"

#include <chrono>
#include <fstream>
#include <sstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "grpcpp/ext/proto_server_reflection_plugin.h"
#include "grpcpp/health_check_service_interface.h"
#include "grpcpp/resource_quota.h"
#include "grpcpp/security/server_credentials.h"
#include "grpcpp/server_builder.h"

namespace tributary {
namespace {

// Reflection is the one service with a thread per open call; our own calls use gRPC's shared callback threads.
constexpr int kMaxSyncThreads = 16;

int Millis(Duration d) { return static_cast<int>(std::chrono::duration_cast<std::chrono::milliseconds>(d).count()); }

absl::StatusOr<std::string> ReadFile(const std::string& key, const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  if (!file || !(text << file.rdbuf())) return absl::InvalidArgumentError(absl::StrCat(key, ": cannot read ", path));
  return text.str();
}

absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> Credentials(const TlsOptions& tls) {
  if (tls.certificate.empty()) return grpc::InsecureServerCredentials();
  absl::StatusOr<std::string> certificate = ReadFile("server.tls.certificate", tls.certificate);
  if (!certificate.ok()) return certificate.status();
  absl::StatusOr<std::string> key = ReadFile("server.tls.key", tls.key);
  if (!key.ok()) return key.status();
  grpc::SslServerCredentialsOptions options(tls.client_ca.empty()
                                                ? GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE
                                                : GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  options.pem_key_cert_pairs.push_back({*std::move(key), *std::move(certificate)});
  if (!tls.client_ca.empty()) {
    absl::StatusOr<std::string> client_ca = ReadFile("server.tls.client_ca", tls.client_ca);
    if (!client_ca.ok()) return client_ca.status();
    options.pem_root_certs = *std::move(client_ca);
  }
  return grpc::SslServerCredentials(options);
}

void SetLimits(const GrpcServerOptions& options, grpc::ServerBuilder* builder) {
  builder->SetMaxReceiveMessageSize(static_cast<int>(options.max_request_bytes));
  // gRPC would inflate a compressed message to its end before it looks at the limit: a few KB can be many GB.
  builder->SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_DEFLATE, false);
  builder->SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_GZIP, false);
  builder->AddChannelArgument(GRPC_ARG_ENABLE_PER_MESSAGE_DECOMPRESSION, 0);
  builder->SetMaxSendMessageSize(-1);  // the service keeps to max_response_bytes itself
  builder->SetResourceQuota(
      grpc::ResourceQuota("tributary").Resize(options.memory_quota_bytes).SetMaxThreads(kMaxSyncThreads));
  builder->SetSyncServerOption(grpc::ServerBuilder::NUM_CQS, 1);
  builder->SetSyncServerOption(grpc::ServerBuilder::MIN_POLLERS, 1);
  builder->SetSyncServerOption(grpc::ServerBuilder::MAX_POLLERS, 2);
  // Two servers on one port would share its connections without a word.
  builder->AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder->AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, static_cast<int>(options.max_streams_per_connection));
  builder->AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, Millis(options.keepalive_time));
  builder->AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, Millis(options.keepalive_timeout));
  builder->AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder->AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
                              Millis(options.min_client_ping_interval));
  if (options.max_connection_age > Duration::zero()) {
    builder->AddChannelArgument(GRPC_ARG_MAX_CONNECTION_AGE_MS, Millis(options.max_connection_age));
  }
  if (options.max_connection_idle > Duration::zero()) {
    builder->AddChannelArgument(GRPC_ARG_MAX_CONNECTION_IDLE_MS, Millis(options.max_connection_idle));
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<GrpcServer>> GrpcServer::Create(const GrpcServerOptions& options, grpc::Service* service,
                                                               GrpcServerName name) {
  absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> credentials = Credentials(options.tls);
  if (!credentials.ok()) return credentials.status();
  grpc::EnableDefaultHealthCheckService(true);
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  grpc::ServerBuilder builder;
  SetLimits(options, &builder);
  auto server = std::unique_ptr<GrpcServer>(new GrpcServer(std::move(name)));
  builder.AddListeningPort(options.listen, *credentials, &server->port_);
  builder.RegisterService(service);
  server->server_ = builder.BuildAndStart();
  if (server->server_ == nullptr || server->port_ == 0) {
    return absl::UnavailableError(absl::StrCat(server->name_.key, ": cannot listen on ", options.listen));
  }
  server->SetServing(true);
  return server;
}

GrpcServer::~GrpcServer() { Shutdown(Duration::zero()); }

void GrpcServer::SetServing(bool serving) {
  grpc::HealthCheckServiceInterface* health = server_->GetHealthCheckService();
  health->SetServingStatus(name_.service, serving);
  health->SetServingStatus("", serving);
}

void GrpcServer::StopServing() { server_->GetHealthCheckService()->Shutdown(); }

void GrpcServer::Shutdown(Duration grace) {
  if (server_ == nullptr) return;
  server_->Shutdown(std::chrono::system_clock::now() + std::chrono::duration_cast<std::chrono::milliseconds>(grace));
  server_->Wait();
}

}  // namespace tributary
