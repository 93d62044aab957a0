package apiserver

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/emicklei/go-restful/v3"
	"k8s.io/apiserver/pkg/server/mux"
	"k8s.io/apiserver/pkg/server/routes"
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
	v3        *common.OpenAPIV3Config
	hash      string

	mu        sync.Mutex // also during a build, which writes to the configurations
	documents map[string]http.Handler
}

// The paths of upstream.
const openAPIV2, openAPIV3 = "/openapi/v2", "/openapi/v3"

func newOpenAPI(container *restful.Container, v2 *common.Config, v3 *common.OpenAPIV3Config) *openAPI {
	return &openAPI{container: container, v2: v2, v3: v3, hash: rand.Text(), documents: map[string]http.Handler{}}
}

// install adds the handlers to the paths that a server serves.
func (o *openAPI) install(paths *mux.PathRecorderMux) {
	paths.Handle(openAPIV2, http.HandlerFunc(o.serveV2))
	paths.Handle(openAPIV3, http.HandlerFunc(o.serveList))
	paths.HandlePrefix(openAPIV3+"/", http.HandlerFunc(o.serveV3))
}

// serve serves a document. The first request builds it.
func (o *openAPI) serve(name string, build func(*mux.PathRecorderMux) error, w http.ResponseWriter, r *http.Request) {
	document, err := o.document(name, build)
	if err != nil {
		http.Error(w, fmt.Sprintf("build %s: %v", name, err), http.StatusInternalServerError)
		return
	}
	document.ServeHTTP(w, r)
}

func (o *openAPI) document(name string, build func(*mux.PathRecorderMux) error) (http.Handler, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if built := o.documents[name]; built != nil {
		return built, nil
	}
	built := mux.NewPathRecorderMux(name)
	if err := build(built); err != nil {
		return nil, err
	}
	o.documents[name] = built
	return built, nil
}

// serveV2 serves the document of version 2, which has all resources. Upstream's InstallV2 would end the process if it cannot be built.
func (o *openAPI) serveV2(w http.ResponseWriter, r *http.Request) {
	o.serve(openAPIV2, func(paths *mux.PathRecorderMux) error {
		all, err := builder.BuildOpenAPISpecFromRoutes(restfuladapter.AdaptWebServices(o.container.RegisteredWebServices()), o.v2)
		if err != nil {
			return err
		}
		all.Definitions = handler.PruneDefaults(all.Definitions)
		handler.NewOpenAPIService(all).RegisterOpenAPIVersionedService(openAPIV2, paths)
		return nil
	}, w, r)
}

// serveList serves the list of the documents in version 3, which needs none of them.
func (o *openAPI) serveList(w http.ResponseWriter, r *http.Request) {
	list := handler3.OpenAPIV3Discovery{Paths: map[string]handler3.OpenAPIV3DiscoveryGroupVersion{}}
	for _, s := range o.container.RegisteredWebServices() {
		name := strings.TrimPrefix(s.RootPath(), "/")
		list.Paths[name] = handler3.OpenAPIV3DiscoveryGroupVersion{ServerRelativeURL: o.url(name)}
	}
	content, err := json.Marshal(list)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(content)
}

// url returns the URL of the document of a version, such as apis/apps/v1, in version 3.
func (o *openAPI) url(name string) string {
	u := url.URL{Path: openAPIV3 + "/" + name, RawQuery: url.Values{"hash": {o.hash}}.Encode()}
	return u.String()
}

// serveV3 serves the document of one version. Like upstream, it redirects a request for another hash, and lets clients keep what they requested with
// the hash for a year.
func (o *openAPI) serveV3(w http.ResponseWriter, r *http.Request) {
	name := strings.TrimPrefix(r.URL.Path, openAPIV3+"/")
	var service *restful.WebService
	for _, s := range o.container.RegisteredWebServices() {
		if s.RootPath() == "/"+name {
			service = s
		}
	}
	if service == nil {
		http.NotFound(w, r)
		return
	}
	if hash := r.URL.Query().Get("hash"); hash != "" {
		if hash != o.hash {
			http.Redirect(w, r, o.url(name), http.StatusMovedPermanently)
			return
		}
		w.Header().Set("Cache-Control", "public, immutable")
		w.Header().Set("Expires", time.Now().AddDate(1, 0, 0).Format(time.RFC1123))
		r = r.Clone(r.Context())
		r.URL.RawQuery = "" // upstream's handler would compare it with the hash of the content
	}
	o.serve(openAPIV3+"/"+name, func(paths *mux.PathRecorderMux) error {
		alone := restful.NewContainer()
		alone.Add(service)
		routes.OpenAPI{V3Config: o.v3}.InstallV3(alone, paths)
		return nil
	}, w, r)
}
