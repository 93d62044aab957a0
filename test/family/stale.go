package family

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
)

// StaleServer returns a controller whose API server has lost, in its watch cache, all events of the first
// deleted pod from its deletion on (kubernetes #123072): watches do not show them, and lists still show the
// pod as it was. Only a read by name returns the current state.
func StaleServer(run func(context.Context, *rest.Config) error) func(context.Context, *rest.Config) error {
	return func(ctx context.Context, config *rest.Config) error {
		config = rest.CopyConfig(config)
		s := &staleServer{last: map[types.UID]json.RawMessage{}}
		config.Wrap(func(next http.RoundTripper) http.RoundTripper { return staleTransport{next, s} })
		return run(ctx, config)
	}
}

type staleServer struct {
	mu    sync.Mutex
	last  map[types.UID]json.RawMessage // the last version of each pod that watches and lists have shown
	stale types.UID
}

type staleTransport struct {
	http.RoundTripper
	server *staleServer
}

// RoundTrip implements http.RoundTripper.
func (t staleTransport) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.Method != http.MethodGet || !strings.HasSuffix(request.URL.Path, "/pods") {
		return t.RoundTripper.RoundTrip(request)
	}
	request = request.Clone(request.Context())
	metadata := strings.Contains(request.Header.Get("Accept"), "as=PartialObjectMetadataList")
	accept := "application/json"
	if metadata {
		accept += ";as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
	}
	request.Header.Set("Accept", accept)
	query := request.URL.Query()
	if query.Get("sendInitialEvents") == "true" { // so that the client lists instead
		body := `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Invalid","code":422,"message":"no watch-lists"}`
		return &http.Response{
			StatusCode: http.StatusUnprocessableEntity, Header: http.Header{"Content-Type": {"application/json"}},
			Body: io.NopCloser(strings.NewReader(body)), Request: request,
		}, nil
	}
	answer, err := t.RoundTripper.RoundTrip(request)
	if err != nil || answer.StatusCode != http.StatusOK {
		return answer, err
	}
	if query.Get("watch") != "" {
		answer.Body = &staleBody{server: t.server, from: answer.Body, frames: json.NewDecoder(answer.Body)}
		return answer, nil
	}
	body, err := io.ReadAll(answer.Body)
	if err == nil {
		body, err = t.server.list(body, metadata)
	}
	answer.Body, answer.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	answer.Header.Del("Content-Length")
	return answer, err
}

// list returns a list as the watch cache contains it.
func (s *staleServer) list(body []byte, metadata bool) ([]byte, error) {
	var list map[string]json.RawMessage
	var items, shown []json.RawMessage
	if err := json.Unmarshal(body, &list); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(list["items"], &items); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, item := range items {
		if s.sees(item, !metadata) {
			shown = append(shown, item)
		}
	}
	if stale := s.last[s.stale]; stale != nil {
		if metadata {
			var o map[string]json.RawMessage
			if err := json.Unmarshal(stale, &o); err != nil {
				return nil, err
			}
			o = map[string]json.RawMessage{"kind": json.RawMessage(`"PartialObjectMetadata"`), "apiVersion": json.RawMessage(`"meta.k8s.io/v1"`), "metadata": o["metadata"]}
			var err error
			if stale, err = json.Marshal(o); err != nil {
				return nil, err
			}
		}
		shown = append(shown, stale)
	}
	var err error
	if list["items"], err = json.Marshal(shown); err != nil {
		return nil, err
	}
	return json.Marshal(list)
}

// sees reports whether the watch cache receives a version of a pod, and records the version.
func (s *staleServer) sees(object json.RawMessage, whole bool) bool {
	var pod metav1.PartialObjectMetadata
	if err := json.Unmarshal(object, &pod); err != nil || pod.UID == "" {
		return true // a bookmark, or a Status
	}
	if s.stale == "" && pod.DeletionTimestamp != nil {
		s.stale = pod.UID
	}
	if pod.UID == s.stale {
		return false
	}
	if whole {
		s.last[pod.UID] = object
	}
	return true
}

// staleBody is a watch response as the watch cache sends it.
type staleBody struct {
	server *staleServer
	from   io.Closer
	frames *json.Decoder
	rest   []byte
}

// Read implements io.Reader.
func (b *staleBody) Read(p []byte) (int, error) {
	for len(b.rest) == 0 {
		var frame json.RawMessage
		if err := b.frames.Decode(&frame); err != nil {
			return 0, err
		}
		var event struct{ Object json.RawMessage }
		if err := json.Unmarshal(frame, &event); err != nil {
			return 0, err
		}
		b.server.mu.Lock()
		if b.server.sees(event.Object, true) {
			b.rest = append(frame, '\n')
		}
		b.server.mu.Unlock()
	}
	n := copy(p, b.rest)
	b.rest = b.rest[n:]
	return n, nil
}

// Close implements io.Closer.
func (b *staleBody) Close() error { return b.from.Close() }
