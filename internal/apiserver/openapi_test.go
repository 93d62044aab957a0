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

// twoVersions returns the documents of two versions with one route each, whose operations have these names, and the number of documents that were built.
func twoVersions(operations ...string) (paths http.Handler, built func() int) {
	container := restful.NewContainer()
	for n, root := range []string{"/api/v1", "/apis/apps/v1"} {
		service := new(restful.WebService).Path(root)
		service.Route(service.GET("/things").Operation(operations[n]).To(func(*restful.Request, *restful.Response) {}))
		container.Add(service)
	}
	count := 0
	definitions := func(common.ReferenceCallback) map[string]common.OpenAPIDefinition { count++; return nil }
	all := mux.NewPathRecorderMux("test")
	newOpenAPI(container,
		&common.Config{Info: &spec.Info{}, GetDefinitions: definitions}, &common.OpenAPIV3Config{Info: &spec.Info{}, GetDefinitions: definitions},
	).install(all)
	return all, func() int { return count }
}

func answerOf(h http.Handler, path string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
	return w
}

// TestOpenAPI: the list of the documents builds none, and each document is built once, when it is first requested, also by several clients at once.
func TestOpenAPI(t *testing.T) {
	paths, built := twoVersions("listCore", "listApps")
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

// TestOpenAPICaching: a client may keep a document that it requested with the hash of the list, another hash is redirected to that one, and what
// is not served is not found.
func TestOpenAPICaching(t *testing.T) {
	paths, _ := twoVersions("listCore", "listApps")
	moved := answerOf(paths, "/openapi/v3/apis/apps/v1?hash=old")
	to := moved.Header().Get("Location")
	if moved.Code != http.StatusMovedPermanently || !strings.HasPrefix(to, "/openapi/v3/apis/apps/v1?hash=") {
		t.Errorf("another hash: %d, to %q", moved.Code, to)
	}
	kept := answerOf(paths, to)
	if kept.Code != http.StatusOK || kept.Header().Get("Cache-Control") != "public, immutable" || kept.Header().Get("Expires") == "" || kept.Header().Get("Vary") == "" || kept.Header().Get("Etag") == "" {
		t.Errorf("with the hash: %d, %v", kept.Code, kept.Header())
	}
	plain := answerOf(paths, "/openapi/v3/apis/apps/v1")
	if plain.Code != http.StatusOK || plain.Header().Get("Cache-Control") != "" || plain.Body.String() != kept.Body.String() {
		t.Errorf("without a hash: %d, %v", plain.Code, plain.Header())
	}
	for _, path := range []string{"/openapi/v3/apis/apps/v2", "/openapi/v3/apis/apps/v1/more?hash=old", "/openapi/v3/"} {
		if got := answerOf(paths, path); got.Code != http.StatusNotFound {
			t.Errorf("%s: %d", path, got.Code)
		}
	}
}

// TestOpenAPIError: a document that cannot be built is an error of its request, and not of the process.
func TestOpenAPIError(t *testing.T) {
	paths, _ := twoVersions("list", "list")
	if got := answerOf(paths, "/openapi/v2"); got.Code != http.StatusInternalServerError || !strings.Contains(got.Body.String(), "duplicate Operation ID list") {
		t.Errorf("%d %s", got.Code, got.Body)
	}
	if got := answerOf(paths, "/openapi/v3/api/v1"); got.Code != http.StatusOK {
		t.Errorf("another document: %d %s", got.Code, got.Body)
	}
}
