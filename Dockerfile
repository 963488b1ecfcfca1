# Plimsoll on Debian 12 by its two commands: `make demo` builds the image, `make test` its stage `test`.
#
#   docker build -t plimsoll .
#   docker run --rm plimsoll shard mlperf-dlrm-dcnv2 --on dgx-h100:2 --batch-size 4096
#   docker build --target test .
FROM debian:12 AS build
RUN apt-get update && apt-get install -y --no-install-recommends ca-certificates git make
WORKDIR /plimsoll
COPY . .
RUN make demo

FROM build AS test
RUN make test

FROM build
ENV PATH=/plimsoll/build/bin:$PATH
ENTRYPOINT ["plimsoll"]
CMD ["--help"]
