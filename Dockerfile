# Tributary in a container.
#   docker build -t tributary .                              CPU
#   docker build -t tributary:cuda --build-arg VARIANT=cuda . with the CUDA device (needs NVIDIA's container toolkit to run)
#   docker run -p 50051:50051 -p 9464:9464 tributary          gRPC and metrics; flags of tributary-server may follow
# The configuration is /opt/tributary/share/tributary/config/tributary.yaml; mount another one and pass --config.
ARG DEBIAN=bookworm
ARG VARIANT=cpu

# ---- What building needs: packages, LibTorch, models. Only scripts/ decides it, so changed sources reuse this layer.
FROM debian:${DEBIAN} AS dependencies-cpu
ENV TRIBUTARY_DEPS=/opt/deps
WORKDIR /src
COPY scripts scripts
RUN scripts/setup
ENV PRESET=release

FROM dependencies-cpu AS dependencies-cuda
RUN scripts/setup --cuda-runtime
ENV PRESET=cuda

# ---- The programs, as a tree that can be moved.
FROM dependencies-${VARIANT} AS builder
COPY . .
RUN cmake --preset ${PRESET} \
 && cmake --build --preset ${PRESET} --target tributary-server tributary-bench \
 && cmake --install build/${PRESET} --prefix /opt/tributary --strip \
 && scripts/lib/runtime_packages /opt/tributary/bin/* > /opt/tributary/runtime-packages

# ---- What runs: the tree, the models, and the packages of the shared libraries the programs are linked to.
FROM debian:${DEBIAN}-slim
COPY --from=builder /opt/tributary /opt/tributary
COPY --from=builder /opt/deps/models /var/lib/tributary/models
RUN apt-get update \
 && xargs apt-get install --yes --no-install-recommends < /opt/tributary/runtime-packages \
 && rm -rf /var/lib/apt/lists/* \
 && useradd --uid 10001 --no-create-home --home-dir /var/lib/tributary --shell /usr/sbin/nologin tributary \
 && install --directory --owner tributary /var/lib/tributary/cache
# Models are read from here, and label vectors are cached here.
ENV TRIBUTARY_DEPS=/var/lib/tributary
# For NVIDIA's container toolkit; without it they mean nothing.
ENV NVIDIA_VISIBLE_DEVICES=all NVIDIA_DRIVER_CAPABILITIES=compute,utility
USER tributary
EXPOSE 50051 9464
STOPSIGNAL SIGTERM
# The first start embeds the image model's labels, which takes a while on few cores.
# It asks without TLS, at the default port: a configuration that changes either brings its own check.
HEALTHCHECK --interval=10s --timeout=15s --start-period=120s --retries=3 \
  CMD ["/opt/tributary/bin/tributary-server", "--check-health", "127.0.0.1:50051"]
ENTRYPOINT ["/opt/tributary/bin/tributary-server"]
