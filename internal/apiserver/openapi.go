package apiserver

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"

	"github.com/emicklei/go-restful/v3"
	"k8s.io/apiserver/pkg/server/mux"
	"k8s.io/apiserver/pkg/server/routes"
	"k8s.io/klog/v2"
	"k8s.io/kube-openapi/pkg/builder"
	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/common/restfuladapter"
	"k8s.io/kube-openapi/pkg/handler"
	"k8s.io/kube-openapi/pkg/handler3"
)

// openAPI serves the OpenAPI documents of the main server, as upstream's routes.OpenAPI builds them, but builds each when it is first requested.
// Upstream builds and encodes all of them at the start, because the list of the documents has the hash of each one's content. That is a third of the
// CPU of a start and a quarter of the memory of an idle server, and most servers are never asked for one.
//
// Here the list has a random text for the hash. Its purpose stays: a client may keep a document for as long as the list has the same URL.
type openAPI struct {
	container *restful.Container
	v2        *common.Config
	v3        common.OpenAPIV3Config
	hash      string

	mu        sync.Mutex // also during a build, which writes to the configurations
	documents map[string]document
}

// document is a document that was built.
type document struct {
	http.Handler
	hash string // of the content, in version 3
}

// The paths of upstream.
const openAPIV2, openAPIV3 = "/openapi/v2", "/openapi/v3"

func newOpenAPI(container *restful.Container, v2 *common.Config, v3 *common.OpenAPIV3Config) *openAPI {
	o := &openAPI{container: container, v2: v2, v3: *v3, hash: rand.Text(), documents: map[string]document{}}
	// A build writes to the maps of the definitions. The server of custom resources reads those of the configuration, and the encoder those of
	// other documents, so each build has its own.
	o.v3.Definitions = nil
	return o
}

// install adds the handlers to the paths that a server serves.
func (o *openAPI) install(paths *mux.PathRecorderMux) {
	paths.Handle(openAPIV2, http.HandlerFunc(o.serveV2))
	paths.Handle(openAPIV3, http.HandlerFunc(o.serveList))
	paths.HandlePrefix(openAPIV3+"/", http.HandlerFunc(o.serveV3))
}

// document returns a document. The first call builds it; if it cannot be built, it answers the request.
func (o *openAPI) document(path string, build func(*mux.PathRecorderMux) (hash string, err error), w http.ResponseWriter, r *http.Request) (d document, ok bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if d, ok := o.documents[path]; ok {
		return d, true
	}
	paths := mux.NewPathRecorderMux(path)
	hash, err := build(paths)
	if err != nil {
		klog.FromContext(r.Context()).Error(err, "The OpenAPI document cannot be built", "path", path)
		http.Error(w, fmt.Sprintf("build %s: %v", path, err), http.StatusInternalServerError)
		return document{}, false
	}
	d = document{paths, hash}
	o.documents[path] = d
	return d, true
}

// serveV2 serves the document of version 2, which has all resources. If it cannot be built, the aggregator leaves these resources out of its own, and the error is in
// the log; upstream's server would not have started.
func (o *openAPI) serveV2(w http.ResponseWriter, r *http.Request) {
	d, ok := o.document(openAPIV2, func(paths *mux.PathRecorderMux) (string, error) {
		all, err := builder.BuildOpenAPISpecFromRoutes(restfuladapter.AdaptWebServices(o.container.RegisteredWebServices()), o.v2)
		if err != nil {
			return "", err
		}
		all.Definitions = handler.PruneDefaults(all.Definitions)
		handler.NewOpenAPIService(all).RegisterOpenAPIVersionedService(openAPIV2, paths)
		return "", nil
	}, w, r)
	if ok {
		d.ServeHTTP(w, r)
	}
}

// serveList serves the list of the documents in version 3, which needs none of them.
func (o *openAPI) serveList(w http.ResponseWriter, _ *http.Request) {
	list := handler3.OpenAPIV3Discovery{Paths: map[string]handler3.OpenAPIV3DiscoveryGroupVersion{}}
	query := url.Values{"hash": {o.hash}}.Encode()
	for _, s := range o.container.RegisteredWebServices() {
		u := url.URL{Path: openAPIV3 + s.RootPath(), RawQuery: query}
		list.Paths[strings.TrimPrefix(s.RootPath(), "/")] = handler3.OpenAPIV3DiscoveryGroupVersion{ServerRelativeURL: u.String()}
	}
	content, err := json.Marshal(list)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(content)
}

// serveV3 serves the document of one version. Upstream's handler redirects a request for another hash than that of the content, and lets clients
// keep what they requested with a hash for a year.
func (o *openAPI) serveV3(w http.ResponseWriter, r *http.Request) {
	var service *restful.WebService
	for _, s := range o.container.RegisteredWebServices() {
		if openAPIV3+s.RootPath() == r.URL.Path {
			service = s
		}
	}
	if service == nil {
		http.NotFound(w, r)
		return
	}
	d, ok := o.document(r.URL.Path, func(paths *mux.PathRecorderMux) (string, error) {
		alone := restful.NewContainer()
		alone.Add(service)
		routes.OpenAPI{V3Config: &o.v3}.InstallV3(alone, paths)
		return contentHash(r.Context(), paths, r.URL.Path)
	}, w, r)
	if !ok {
		return
	}
	if r.URL.Query().Get("hash") == o.hash {
		r = r.Clone(r.Context())
		r.URL.RawQuery = url.Values{"hash": {d.hash}}.Encode()
	}
	d.ServeHTTP(w, r)
}

// contentHash returns the hash of a document's content, which its handler sends as Etag. The handler does not answer for a document that upstream could not
// build; upstream has logged why.
func contentHash(ctx context.Context, handler http.Handler, path string) (string, error) {
	r, err := http.NewRequestWithContext(context.WithoutCancel(ctx), http.MethodGet, path, nil)
	if err != nil {
		return "", err
	}
	r.Header.Set("Accept", "application/json")
	answer := headerOnly{}
	handler.ServeHTTP(answer, r)
	hash, err := strconv.Unquote(http.Header(answer).Get("Etag"))
	if err != nil {
		return "", errors.New("the log of the server has the reason")
	}
	return hash, nil
}

// headerOnly is the header of an answer without its content.
type headerOnly http.Header

func (h headerOnly) Header() http.Header         { return http.Header(h) }
func (h headerOnly) WriteHeader(int)             {}
func (h headerOnly) Write(b []byte) (int, error) { return len(b), nil }
