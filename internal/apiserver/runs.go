package apiserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/client-go/rest"
	"k8s.io/kubernetes/cmd/kube-apiserver/app/options"
	"k8s.io/kubernetes/pkg/api/legacyscheme"

	"github.com/rehearse-k8s/rehearse/internal/store"
)

// A server with Options.Runs also serves requests in a run's world (store.WithRun). The server's own
// informers (CRDs, roles, priority classes, webhook configurations) follow only the process's world. So the
// admission plugins that would read a run's objects through such an informer are omitted. The one on whose
// answer a controller depends, the lifecycle of namespaces, reads the run's world itself.

// processWorldPlugins are the admission plugins that read the process's world instead of the run's.
var processWorldPlugins = []string{
	"NamespaceLifecycle", // runNamespaces replaces it
	"ServiceAccount", "PodSecurity", "LimitRanger", "ResourceQuota",
	"PodResizeValidator", // it reads the node of a pod
}

// selfHooks are upstream's hooks by which a server writes about itself: the service default/kubernetes with
// its endpoints, the lease of its identity, the certificates that it trusts. No client reads these in a
// process of runs, no run's world contains them, and they are written by the machine's clock: the values that
// they take from math/rand would change the run in progress.
var selfHooks = []string{
	"bootstrap-controller",
	"start-kube-apiserver-identity-lease-controller", "start-kube-apiserver-identity-lease-garbage-collector",
	"start-legacy-token-tracking-controller",
	"start-cluster-authentication-info-controller",
}

const runNamespacesPlugin = "RunNamespaces"

func useRunAdmission(o *options.ServerRunOptions, worlds *store.Worlds) {
	a := o.Admission.GenericAdmission
	a.DisablePlugins = append(a.DisablePlugins, processWorldPlugins...)
	a.Plugins.Register(runNamespacesPlugin, func(io.Reader) (admission.Interface, error) {
		return &runNamespaces{admission.NewHandler(admission.Create, admission.Update, admission.Delete), worlds}, nil
	})
	a.RecommendedPluginOrder = append([]string{runNamespacesPlugin}, a.RecommendedPluginOrder...)
}

// runNamespaces rejects writes into namespaces that do not exist, and creates in those that are being
// deleted, as upstream's NamespaceLifecycle does, but in the world of the request.
type runNamespaces struct {
	*admission.Handler
	worlds *store.Worlds
}

var namespaces = schema.GroupResource{Resource: "namespaces"}

// Admit implements admission.MutationInterface.
func (p *runNamespaces) Admit(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if a.GetKind().GroupKind() == (schema.GroupKind{Kind: "Namespace"}) {
		if a.GetOperation() == admission.Delete && immortal(a.GetName()) {
			return apierrors.NewForbidden(namespaces, a.GetName(), errors.New("this namespace may not be deleted"))
		}
		return nil
	}
	if a.GetNamespace() == "" || a.GetOperation() == admission.Delete || a.GetResource().Group == "authorization.k8s.io" {
		return nil
	}
	namespace, err := p.namespace(ctx, a.GetNamespace())
	if err != nil {
		return err
	}
	if a.GetOperation() != admission.Create || namespace.Status.Phase != corev1.NamespaceTerminating {
		return nil
	}
	forbidden := apierrors.NewForbidden(a.GetResource().GroupResource(), a.GetName(),
		fmt.Errorf("unable to create new content in namespace %s because it is being terminated", a.GetNamespace()))
	forbidden.ErrStatus.Details.Causes = append(forbidden.ErrStatus.Details.Causes, metav1.StatusCause{
		Type:    corev1.NamespaceTerminatingCause,
		Message: fmt.Sprintf("namespace %s is being terminated", a.GetNamespace()),
		Field:   "metadata.namespace",
	})
	return forbidden
}

func immortal(namespace string) bool {
	return namespace == metav1.NamespaceDefault || namespace == metav1.NamespaceSystem || namespace == metav1.NamespacePublic
}

func (p *runNamespaces) namespace(ctx context.Context, name string) (*corev1.Namespace, error) {
	value, _, _, _, ok := p.worlds.World(store.RunFrom(ctx)).RawGet("/namespaces/" + name)
	if !ok {
		return nil, apierrors.NewNotFound(namespaces, name)
	}
	obj, err := runtime.Decode(legacyscheme.Codecs.UniversalDeserializer(), value)
	if err != nil {
		return nil, apierrors.NewInternalError(fmt.Errorf("namespace %s: %w", name, err))
	}
	namespace, ok := obj.(*corev1.Namespace)
	if !ok {
		return nil, apierrors.NewInternalError(fmt.Errorf("namespace %s is stored as %T", name, obj))
	}
	return namespace, nil
}

// ServeFunc serves one request. It returns complete == false if the server closed the connection during the answer.
type ServeFunc func(http.ResponseWriter, *http.Request) (complete bool)

// InProcess is the in-process transport for a caller with its own response writer. The requests have this
// user.
func (s *Server) InProcess(user string) ServeFunc {
	who := component(user)
	return func(w http.ResponseWriter, r *http.Request) bool {
		t := RoundTripper{User: who}
		r = t.serverRequest(r, r.Context())
		if run := store.RunFrom(r.Context()); run != "" && indirect(r) {
			defer s.working.enter(run)()
		}
		return serve(s.handlers.inProcess, w, r)
	}
}

// RunConfig is RESTConfig for requests in a run's world.
func (s *Server) RunConfig(run, user string) *rest.Config {
	c := s.RESTConfig(user)
	next := c.Transport
	c.Transport = roundTripperFunc(func(r *http.Request) (*http.Response, error) {
		if indirect(r) {
			defer s.working.enter(run)()
		}
		return next.RoundTrip(r.WithContext(store.WithRun(r.Context(), run)))
	})
	return c
}

// indirect reports whether the server may send requests of its own to serve a request.
func indirect(r *http.Request) bool {
	return r.Method != http.MethodGet && (strings.Contains(r.URL.Path, "/services") || strings.HasSuffix(r.URL.Path, "/eviction"))
}

// ownRequest reports whether a request of the server's own client may belong to an indirect one: the
// allocator of Service addresses writes IPAddress objects, and an eviction reads PodDisruptionBudgets and
// writes their status.
func ownRequest(r *http.Request) bool {
	return strings.Contains(r.URL.Path, "/ipaddresses") || strings.Contains(r.URL.Path, "/poddisruptionbudgets")
}

// workingFor directs the requests of the server's own client to the run of the request that it serves. That
// client does not pass the request's context on, so the run is recorded here: one indirect request of a run
// at a time.
type workingFor struct {
	one sync.Mutex // locked by the request

	mu  sync.Mutex
	run string
}

func (a *workingFor) enter(run string) (leave func()) {
	a.one.Lock()
	a.set(run)
	return func() {
		a.set("")
		a.one.Unlock()
	}
}

func (a *workingFor) set(run string) {
	a.mu.Lock()
	a.run = run
	a.mu.Unlock()
}

func (a *workingFor) current() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.run
}

// wrap adds the run to the requests of the server's own client.
func (a *workingFor) wrap(c *genericapiserver.Config, d *handlers) {
	c.LoopbackClientConfig = rest.CopyConfig(c.LoopbackClientConfig)
	c.LoopbackClientConfig.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripperFunc(func(r *http.Request) (*http.Response, error) {
			run := a.current()
			if run == "" || !ownRequest(r) || isStreaming(r) {
				return next.RoundTrip(r)
			}
			own := &RoundTripper{Handler: d.inProcess, User: component("system:apiserver")}
			return own.RoundTrip(r.WithContext(store.WithRun(r.Context(), run)))
		})
	})
}

type roundTripperFunc func(*http.Request) (*http.Response, error)

func (f roundTripperFunc) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// longWatch is the duration of a watch of the server's own clients, in seconds.
const longWatch = 7 * 24 * 60 * 60

// withLongWatches prolongs watches with a timeout. The clients that use the socket of a server of runs are its own, which draw the timeout of each watch
// at random, from five to ten minutes. They draw it from the source of random numbers that each step of a run seeds: in a process that runs for
// longer than five minutes, two runs with one seed could differ.
func withLongWatches(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if query := r.URL.Query(); query.Has("timeoutSeconds") && isStreaming(r) {
			query.Set("timeoutSeconds", strconv.Itoa(longWatch))
			r = r.Clone(r.Context())
			r.URL.RawQuery = query.Encode()
		}
		next.ServeHTTP(w, r)
	})
}
