# The rehearse binary alone. docker build --build-arg VERSION=v1.2.3 -t rehearse:dev .
# For a release name both images by digest: --build-arg GO_IMAGE=...@sha256:... --build-arg BASE_IMAGE=...@sha256:...
ARG GO_IMAGE=docker.io/library/golang:1.26
ARG BASE_IMAGE=gcr.io/distroless/static-debian12:nonroot
FROM --platform=$BUILDPLATFORM $GO_IMAGE AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG TARGETOS TARGETARCH VERSION COMMIT DATE
RUN V=github.com/rehearse-k8s/rehearse/internal/version && \
    CGO_ENABLED=0 GOOS=$TARGETOS GOARCH=$TARGETARCH go build -trimpath \
    -ldflags "-s -w -X $V.version=$VERSION -X $V.commit=$COMMIT -X $V.date=$DATE" -o /rehearse ./cmd/rehearse

FROM $BASE_IMAGE
COPY --from=build /rehearse /rehearse
USER 65532:65532
ENTRYPOINT ["/rehearse"]
CMD ["simulate", "--leader-elect", "--metrics-address=:8080"]
