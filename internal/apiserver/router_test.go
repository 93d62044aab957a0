package apiserver

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/emicklei/go-restful/v3"

	"github.com/rehearse-k8s/rehearse/internal/store"
)

// servedServices returns the services of a running server.
func servedServices(t *testing.T) []*restful.WebService {
	t.Helper()
	served := make(chan []*restful.WebService, 1)
	own := newRouter
	newRouter = func() restful.RouteSelector { return &notingRouter{served: served} }
	defer func() { newRouter = own }()
	s, err := Start(t.Context(), Options{Dir: t.TempDir(), Backend: Memory{Worlds: store.New(store.Options{})}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	if err := s.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	select {
	case services := <-served: // of a request of the server itself
		return services
	default:
		t.Fatal("the server does not use the router")
		return nil
	}
}

// notingRouter passes the services that it gets to served.
type notingRouter struct {
	router
	served chan []*restful.WebService
}

func (r *notingRouter) SelectRoute(services []*restful.WebService, request *http.Request) (*restful.WebService, *restful.Route, error) {
	select {
	case r.served <- services:
	default:
	}
	return r.router.SelectRoute(services, request)
}

// TestRouter: for the paths of all routes with random parameters, methods and headers, the router gives the same route or error as
// upstream's, the first and the second time, and it remembers the choices for many of them.
func TestRouter(t *testing.T) {
	services := servedServices(t)
	r := rand.New(rand.NewPCG(1, 2))
	ours := &router{}
	pick := func(from ...string) string { return from[r.IntN(len(from))] }
	routes, remembered := 0, 0
	for _, s := range services {
		for _, route := range s.Routes() {
			for range 8 {
				var path []string
				for name := range strings.SplitSeq(route.Path, "/") {
					if strings.Contains(name, "{") && r.IntN(20) > 0 {
						name = pick("a", "a", "a", "status", "pods", "watch", "namespaces", "proxy", "finalize", "a:b", "{name}", "ü", "")
					}
					path = append(path, name)
				}
				request := &http.Request{Method: pick(route.Method, route.Method, "GET", "PUT", "PATCH", "DELETE", "HEAD"), Header: http.Header{}}
				request.URL = httptest.NewRequest("GET", "/", nil).URL
				request.URL.Path = strings.Join(path, "/") + pick("", "", "", "", "/", "//", "/more", "/more/")
				if accept := pick("", "application/json", "application/vnd.kubernetes.protobuf", "text/html", "*/*"); accept != "" {
					request.Header.Set("Accept", accept)
				}
				if content := pick("", "application/json", "application/json", "application/apply-patch+yaml", "image/png"); content != "" {
					request.Header.Set("Content-Type", content)
				}
				for range 2 {
					want, got := selection(restful.CurlyRouter{}, services, request), selection(ours, services, request)
					if want != got {
						t.Fatalf("%s %q %v: %s, want %s", request.Method, request.URL.Path, request.Header, got, want)
					}
				}
				routes++
				if end := ours.paths.Load().find(request.URL.Path); end != nil {
					if _, ok := end.choices.Load(choice{request.Method, request.Header.Get("Content-Type"), request.Header.Get("Accept")}); ok {
						remembered++
					}
				}
			}
		}
	}
	t.Logf("%d requests compared, %d choices remembered", routes, remembered)
	if remembered < routes/10 {
		t.Errorf("%d choices of %d requests are remembered", remembered, routes)
	}
}

// selection describes what a router selects.
func selection(of restful.RouteSelector, services []*restful.WebService, request *http.Request) string {
	s, route, err := of.SelectRoute(services, request)
	text := ""
	if s != nil {
		text = s.RootPath()
	}
	if route != nil {
		text += fmt.Sprint(" ", route.Method, " ", route.Path, " ", route.Operation)
	}
	return fmt.Sprint(text, " ", err)
}

// TestRouterForgets: after the services have changed, the router chooses again, and it remembers only so many choices.
func TestRouterForgets(t *testing.T) {
	nothing := func(*restful.Request, *restful.Response) {}
	pods := new(restful.WebService).Path("/api/v1")
	pods.Route(pods.GET("/pods/{name}").To(nothing))
	nodes := new(restful.WebService).Path("/apis/a/v1")
	nodes.Route(nodes.GET("/nodes/{name}").To(nothing))
	r := &router{}
	get := func(services []*restful.WebService, path string, header string) error {
		request := httptest.NewRequest("GET", path, nil)
		request.Header.Set("Content-Type", header)
		_, _, err := r.SelectRoute(services, request)
		return err
	}
	container := restful.NewContainer().Add(pods)
	container.Router(r)
	status := func(path string) int {
		answer := httptest.NewRecorder()
		container.Dispatch(answer, httptest.NewRequest("GET", path, nil))
		return answer.Code
	}
	first, second := status("/api/v1/pods/a"), status("/apis/a/v1/nodes/a")
	container.Add(nodes)
	third := status("/apis/a/v1/nodes/a")
	if err := container.Remove(pods); err != nil {
		t.Fatal(err)
	}
	if got, want := []int{first, second, third, status("/api/v1/pods/a")}, []int{200, 404, 200, 404}; !slices.Equal(got, want) {
		t.Errorf("statuses with pods, without nodes, with both, and without pods: %v, want %v", got, want)
	}
	one := []*restful.WebService{pods}
	kept := func() (n int) {
		if known := r.paths.Load(); known != nil {
			known.find("/api/v1/pods/b").choices.Range(func(any, any) bool { n++; return true })
		}
		return n
	}
	for n := range maxChoices + 2 {
		if err := get(one, "/api/v1/pods/a", fmt.Sprint(n)); err != nil {
			t.Fatal(err)
		}
		if n == maxChoices-1 && kept() != maxChoices {
			t.Errorf("%d choices are remembered, want %d", kept(), maxChoices)
		}
	}
	if kept() != 1 {
		t.Errorf("%d choices are remembered after there were too many, want the last one", kept())
	}
	if err := get(one, "/api/v1/pods/a", strings.Repeat("a", maxHeaders+1)); err != nil || kept() != 1 {
		t.Errorf("a choice with a long header: %v; %d are remembered", err, kept())
	}
}

// BenchmarkRouter measures the selection of the route of a pod's status.
func BenchmarkRouter(b *testing.B) {
	nothing := func(*restful.Request, *restful.Response) {}
	s := new(restful.WebService).Path("/api/v1")
	for n := range 100 {
		for _, path := range []string{"/kind%d", "/watch/kind%d", "/namespaces/{namespace}/kind%d", "/namespaces/{namespace}/kind%d/{name}", "/namespaces/{namespace}/kind%d/{name}/status"} {
			s.Route(s.GET(fmt.Sprintf(path, n)).To(nothing))
		}
	}
	request := httptest.NewRequest("GET", "/api/v1/namespaces/default/kind50/a/status", nil)
	for _, c := range []struct {
		name string
		of   restful.RouteSelector
	}{{"upstream", restful.CurlyRouter{}}, {"ours", &router{}}} {
		b.Run(c.name, func(b *testing.B) {
			services := slices.Clone([]*restful.WebService{s})
			b.ReportAllocs()
			for b.Loop() {
				if _, _, err := c.of.SelectRoute(services, request); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// TestRouterAmbiguousPaths: paths that match several routes get the same route as from upstream, whatever was asked before.
func TestRouterAmbiguousPaths(t *testing.T) {
	nothing := func(*restful.Request, *restful.Response) {}
	s := new(restful.WebService).Path("/api/v1")
	for _, path := range []string{"/x/{a}/c", "/x/b/{d}", "/x/b/e", "/y/{q}", "/y/{p:[a-z]+}", "/y/{p}/f", "/z/{path:*}", "/z/g", "/z/{name}/h", "/w/{z:[a-z]+}", "/w/{q}"} {
		s.Route(s.GET(path).To(nothing).Operation(path))
	}
	services := []*restful.WebService{s}
	r := rand.New(rand.NewPCG(3, 4))
	ours := &router{}
	for range 2000 {
		var path []string
		for range 1 + r.IntN(3) {
			path = append(path, []string{"a", "b", "c", "e", "f", "g", "h", "1"}[r.IntN(8)])
		}
		request := httptest.NewRequest("GET", "/api/v1/"+[]string{"w", "x", "y", "z"}[r.IntN(4)]+"/"+strings.Join(path, "/"), nil)
		if want, got := selection(restful.CurlyRouter{}, services, request), selection(ours, services, request); want != got {
			t.Fatalf("%s: %s, want %s", request.URL.Path, got, want)
		}
	}
}
