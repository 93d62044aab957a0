package apiserver

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/emicklei/go-restful/v3"
	"k8s.io/apiserver/pkg/server/mux"
	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/handler3"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// twoVersions returns the documents of two versions with one route each, and the number of documents that were built.
func twoVersions() (paths http.Handler, built func() int) {
	container := restful.NewContainer()
	for _, root := range []string{"/api/v1", "/apis/apps/v1"} {
		service := new(restful.WebService).Path(root)
		service.Route(service.GET("/things").Operation("list" + root).To(func(*restful.Request, *restful.Response) {}))
		container.Add(service)
	}
	count := 0
	definitions := func(common.ReferenceCallback) map[string]common.OpenAPIDefinition { count++; return nil }
	all := mux.NewPathRecorderMux("test")
	shared := map[string]common.OpenAPIDefinition{"read by others": {}}
	newOpenAPI(container,
		&common.Config{Info: &spec.Info{}, GetDefinitions: definitions}, &common.OpenAPIV3Config{Info: &spec.Info{}, GetDefinitions: definitions, Definitions: shared},
	).install(all)
	return all, func() int { return count }
}

func answerOf(h http.Handler, path string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
	return w
}

// TestOpenAPI: the list of the documents builds none, and each document is built once, when it is first requested, also by several clients at once. A build
// does not use the definitions of the configuration, to which it would write while others read them.
func TestOpenAPI(t *testing.T) {
	paths, built := twoVersions()
	var list handler3.OpenAPIV3Discovery
	for range 2 {
		again := handler3.OpenAPIV3Discovery{}
		if err := json.Unmarshal(answerOf(paths, "/openapi/v3").Body.Bytes(), &again); err != nil || len(again.Paths) != 2 {
			t.Fatalf("%v: %v", again, err)
		}
		if was := list.Paths["api/v1"]; was != (handler3.OpenAPIV3DiscoveryGroupVersion{}) && was != again.Paths["api/v1"] {
			t.Errorf("the URL has changed from %v to %v", was, again.Paths["api/v1"])
		}
		list = again
	}
	if built() != 0 {
		t.Fatalf("the list has built %d documents", built())
	}
	for n, path := range []string{list.Paths["api/v1"].ServerRelativeURL, list.Paths["apis/apps/v1"].ServerRelativeURL, "/openapi/v2"} {
		var clients sync.WaitGroup
		for range 8 {
			clients.Go(func() {
				if got := answerOf(paths, path); got.Code != http.StatusOK || !strings.Contains(got.Body.String(), "/things") {
					t.Errorf("%s: %d %s", path, got.Code, got.Body)
				}
			})
		}
		clients.Wait()
		if built() != n+1 {
			t.Errorf("%d documents were built for %d", built(), n+1)
		}
	}
}

// TestOpenAPICaching: a client may keep a document that it requested with the hash of the list, or with that of the content, to which a request with
// another hash is redirected. What is not served is not found, and a client does not keep an error.
func TestOpenAPICaching(t *testing.T) {
	paths, _ := twoVersions()
	var list handler3.OpenAPIV3Discovery
	if err := json.Unmarshal(answerOf(paths, "/openapi/v3").Body.Bytes(), &list); err != nil {
		t.Fatal(err)
	}
	moved := answerOf(paths, "/openapi/v3/apis/apps/v1?hash=old")
	if moved.Code != http.StatusMovedPermanently {
		t.Errorf("another hash: %d", moved.Code)
	}
	plain := answerOf(paths, "/openapi/v3/apis/apps/v1")
	if plain.Code != http.StatusOK || plain.Header().Get("Cache-Control") != "" {
		t.Errorf("without a hash: %d, %v", plain.Code, plain.Header())
	}
	for _, path := range []string{list.Paths["apis/apps/v1"].ServerRelativeURL, moved.Header().Get("Location")} {
		kept := answerOf(paths, path)
		if h := kept.Header(); kept.Code != http.StatusOK || h.Get("Cache-Control") != "public, immutable" || h.Get("Expires") == "" || h.Get("Vary") != "Accept" || h.Get("Etag") == "" {
			t.Errorf("%s: %d, %v", path, kept.Code, h)
		}
		if kept.Body.String() != plain.Body.String() {
			t.Errorf("%s: %s, want %s", path, kept.Body, plain.Body)
		}
	}
	r := httptest.NewRequest(http.MethodGet, list.Paths["apis/apps/v1"].ServerRelativeURL, nil)
	r.Header.Set("Accept", "text/html")
	rejected := httptest.NewRecorder()
	paths.ServeHTTP(rejected, r)
	if rejected.Code != http.StatusNotAcceptable || rejected.Header().Get("Cache-Control") != "" {
		t.Errorf("text/html: %d, %v", rejected.Code, rejected.Header())
	}
	for _, path := range []string{"/openapi/v3/apis/apps/v2", "/openapi/v3/apis/apps/v1/more?hash=old", "/openapi/v3/"} {
		if got := answerOf(paths, path); got.Code != http.StatusNotFound {
			t.Errorf("%s: %d", path, got.Code)
		}
	}
}

// TestOpenAPIError: a document that cannot be built is an error of its request, which a client does not keep, and not of the process.
func TestOpenAPIError(t *testing.T) {
	container := restful.NewContainer()
	for n, root := range []string{"/api/v1", "/apis/apps/v1"} {
		service := new(restful.WebService).Path(root).Produces("application/json")
		route := service.GET("/things").Operation("list" + root).To(func(*restful.Request, *restful.Response) {})
		if n == 1 {
			route.Writes(spec.Info{}) // has no definition
		}
		container.Add(service.Route(route))
	}
	none := func(common.ReferenceCallback) map[string]common.OpenAPIDefinition { return nil }
	paths := mux.NewPathRecorderMux("test")
	o := newOpenAPI(container, &common.Config{Info: &spec.Info{}, GetDefinitions: none}, &common.OpenAPIV3Config{Info: &spec.Info{}, GetDefinitions: none})
	o.install(paths)
	for _, path := range []string{"/openapi/v2", "/openapi/v3/apis/apps/v1?hash=" + o.hash} {
		for range 2 {
			if got := answerOf(paths, path); got.Code != http.StatusInternalServerError || got.Header().Get("Cache-Control") != "" {
				t.Errorf("%s: %d %v %s", path, got.Code, got.Header(), got.Body)
			}
		}
	}
	if got := answerOf(paths, "/openapi/v3/api/v1"); got.Code != http.StatusOK {
		t.Errorf("another document: %d %s", got.Code, got.Body)
	}
}
