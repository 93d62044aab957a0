// Package kubeletapi serves the kubelet API of all simulated nodes: what `kubectl logs`, `exec`, `attach` and `port-forward` ask a
// kubelet for.
//
// Objects of the group kwok.x-k8s.io (package rules selects the one that applies) name the files, commands and addresses that stand for
// a container. The package runs no command and opens no connection that no object names. The handler does not decide who may send a
// request: in `rehearse up`, the API server does that before it forwards the request, and only the API server reaches the handler. A server
// of its own (Listen) asks the API server about each request, as a kubelet does.
//
// Floor: F3. Its clients are created at the first request, and it keeps no state between requests.
package kubeletapi

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/pprof"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/dynamic"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	"github.com/rehearse-k8s/rehearse/internal/controller/stages"
	"github.com/rehearse-k8s/rehearse/internal/kubeletapi/logfile"
	"github.com/rehearse-k8s/rehearse/internal/kubeletapi/rules"
)

// Options are the options of New.
type Options struct {
	// Config is called once, at the first request. Its client reads pods, nodes and the objects of the group kwok.x-k8s.io.
	Config func() *rest.Config
	// Rules are the objects from files. The server asks them before the objects of the API that have the same scope.
	Rules *rules.Set
	// NodePaths are further paths, each with a handler that serves the node with a given name.
	NodePaths map[string]func(w http.ResponseWriter, r *http.Request, node string)
	// NodeOfPath returns the node that the path of a request names if no API server has forwarded the request. Without it, only forwarded
	// requests reach NodePaths.
	NodeOfPath func(ctx context.Context, path string) (string, error)
	// Discovery serves /discovery/prometheus, the list of what a Prometheus server can scrape.
	Discovery http.HandlerFunc
	// Serves, if set, selects the nodes whose pods are served. The others are answered with 404.
	Serves func(*corev1.Node) bool
	// NoCommands rejects requests that run a command or connect to an address of this machine's network: exec and port-forward. The error
	// contains it.
	NoCommands string
	// Now is the current time; default time.Now.
	Now func() time.Time
}

// Server is the handler of the kubelet API.
type Server struct {
	options Options
	mux     *http.ServeMux
	clients func() (clients, error)
	files   logfile.Watcher
}

type clients struct {
	core    *corev1client.CoreV1Client
	dynamic dynamic.Interface
}

// New returns a handler. It sends no request and starts no goroutine.
func New(o Options) *Server {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Rules == nil {
		o.Rules = &rules.Set{}
	}
	s := &Server{options: o, mux: http.NewServeMux()}
	s.clients = sync.OnceValues(func() (c clients, err error) {
		config := o.Config()
		if c.core, err = corev1client.NewForConfig(config); err != nil {
			return c, err
		}
		c.dynamic, err = dynamic.NewForConfig(config)
		return c, err
	})
	for _, path := range []string{"/healthz", "/livez", "/readyz"} {
		s.mux.HandleFunc("GET "+path, healthy)
	}
	s.mux.HandleFunc("GET "+profiles, pprof.Index)
	for name, serve := range map[string]http.HandlerFunc{"cmdline": pprof.Cmdline, "profile": pprof.Profile, "symbol": pprof.Symbol, "trace": pprof.Trace} {
		s.mux.HandleFunc("GET "+profiles+name, serve)
	}
	for path, serve := range o.NodePaths {
		s.mux.HandleFunc("GET "+path, func(w http.ResponseWriter, r *http.Request) {
			node, err := s.nodeOf(r)
			if err != nil {
				fail(w, err, http.StatusBadRequest)
				return
			}
			serve(w, r, node)
		})
	}
	if o.Discovery != nil {
		s.mux.HandleFunc("GET "+discoveryPath, o.Discovery)
	}
	s.mux.HandleFunc("GET /containerLogs/{namespace}/{pod}/{container}", s.containerLogs)
	for _, path := range []string{"/{namespace}/{pod}/{container}", "/{namespace}/{pod}/{uid}/{container}"} {
		s.mux.HandleFunc("/exec"+path, s.exec)
		s.mux.HandleFunc("/attach"+path, s.attach)
	}
	for _, path := range []string{"/{namespace}/{pod}", "/{namespace}/{pod}/{uid}"} {
		s.mux.HandleFunc("/portForward"+path, s.portForward)
	}
	return s
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.mux.ServeHTTP(w, r) }

// healthy answers the probes of a node: a simulated kubelet is as healthy as the process.
func healthy(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") }

// profiles is the path under which a kubelet serves profiles of its process, here of the process that simulates all nodes.
const profiles = "/debug/pprof/"

// discoveryPath is the path of Options.Discovery.
const discoveryPath = "/discovery/prometheus"

// nodeOf returns the node of a request. All nodes share one handler, and several may have the same address, so if the API server's proxy of
// nodes has forwarded the request, only the header with the original path names the node: /api/v1/nodes/[SCHEME:]NAME[:PORT]/proxy/...
func (s *Server) nodeOf(r *http.Request) (string, error) {
	forwarded := r.Header.Get("X-Forwarded-Uri")
	if forwarded == "" && s.options.NodeOfPath != nil {
		return s.options.NodeOfPath(r.Context(), r.URL.Path)
	}
	rest, ok := strings.CutPrefix(forwarded, "/api/v1/nodes/")
	id, _, _ := strings.Cut(rest, "/")
	_, name, _, valid := utilnet.SplitSchemeNamePort(id)
	if !ok || !valid {
		return "", fmt.Errorf("%s: the path %q does not name a node", r.URL.Path, forwarded)
	}
	return name, nil
}

// Simulates reports whether the server answers for a node, or for the node of a pod: whether the node has the annotation of
// simulated nodes.
func (s *Server) Simulates(ctx context.Context, resource, namespace, name string) (bool, error) {
	c, err := s.clients()
	if err != nil {
		return false, err
	}
	node := name
	switch resource {
	case "nodes":
	case "pods":
		pod, err := c.core.Pods(namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		node = pod.Spec.NodeName
	default:
		return false, nil
	}
	n, err := c.core.Nodes().Get(ctx, node, metav1.GetOptions{})
	if err != nil {
		return false, err
	}
	return n.Annotations[stages.SimulatedAnnotation] == stages.SimulatedAnnotationValue, nil
}

// statusError is an error with the HTTP status of its response.
type statusError struct {
	code int
	err  error
}

func (e *statusError) Error() string { return e.err.Error() }

func (e *statusError) Unwrap() error { return e.err }

func failed(code int, format string, args ...any) *statusError {
	return &statusError{code, fmt.Errorf(format, args...)}
}

// target is the container of a request.
type target struct {
	pod       *corev1.Pod
	container string
	image     string
}

// target reads the pod of a request. The error is a *statusError with the status of a kubelet's response.
func (s *Server) target(ctx context.Context, namespace, name, container string) (target, error) {
	c, err := s.clients()
	if err != nil {
		return target{}, failed(http.StatusInternalServerError, "%w", err)
	}
	pod, err := c.core.Pods(namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return target{}, failed(http.StatusNotFound, "pod %q does not exist", name)
	} else if err != nil {
		return target{}, failed(http.StatusInternalServerError, "%w", err)
	}
	if err := s.checkNode(ctx, c, pod); err != nil {
		return target{}, err
	}
	t := target{pod: pod, container: container}
	if container == "" {
		return t, nil
	}
	image, ok := imageOf(&pod.Spec, container)
	if !ok {
		return t, failed(http.StatusNotFound, "container %q not found in pod %q", container, name)
	}
	t.image = image
	return t, nil
}

// checkNode rejects a pod on a node that Options.Serves does not select.
func (s *Server) checkNode(ctx context.Context, c clients, pod *corev1.Pod) error {
	if s.options.Serves == nil {
		return nil
	}
	node, err := c.core.Nodes().Get(ctx, pod.Spec.NodeName, metav1.GetOptions{})
	switch {
	case err != nil && !apierrors.IsNotFound(err):
		return failed(http.StatusInternalServerError, "%w", err)
	case err != nil || !s.options.Serves(node):
		return failed(http.StatusNotFound, "pod %q is on node %q, which this process does not simulate", pod.Name, pod.Spec.NodeName)
	}
	return nil
}

// imageOf returns the image of a container of any type.
func imageOf(spec *corev1.PodSpec, container string) (string, bool) {
	for _, list := range [][]corev1.Container{spec.Containers, spec.InitContainers} {
		for _, c := range list {
			if c.Name == container {
				return c.Image, true
			}
		}
	}
	for _, c := range spec.EphemeralContainers {
		if c.Name == container {
			return c.Image, true
		}
	}
	return "", false
}
