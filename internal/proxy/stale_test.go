package proxy_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	"github.com/rehearse-k8s/rehearse/internal/proxy"
)

// names lists the ConfigMaps of the test in a namespace.
func names(t *testing.T, c kubernetes.Interface, ns string, o metav1.ListOptions) (text, revision string) {
	t.Helper()
	list, err := c.CoreV1().ConfigMaps(ns).List(t.Context(), o)
	must(t, err)
	var all []string
	for i := range list.Items {
		if name := list.Items[i].Name; name != "kube-root-ca.crt" {
			all = append(all, name)
		}
	}
	return strings.Join(all, " "), list.ResourceVersion
}

// watchFrom returns n events of a watch from a revision.
func watchFrom(t *testing.T, c kubernetes.Interface, ns, revision string, n int) []string {
	t.Helper()
	o := mine
	o.ResourceVersion = revision
	w, err := c.CoreV1().ConfigMaps(ns).Watch(t.Context(), o)
	must(t, err)
	defer w.Stop()
	return events(t, w, n)
}

// TestStaleList: a list that permits it is answered from an older state, once, and the watch delivers the rest. A watch that
// sends the initial objects fails, so that its client lists.
func TestStaleList(t *testing.T) {
	p := newProxy(t)
	c, ns := through(t, p, "c", admin), namespace(t)
	r := begin(t, p, proxy.Hooks{}, "stale-list actor=c resource=configmaps verb=list nth=2 writes=2", "stale-list actor=c resource=configmaps verb=watch")
	for _, name := range []string{"a", "b", "c"} {
		must(t, create(t.Context(), c, ns, name))
	}
	older := metav1.ListOptions{ResourceVersion: "0", Limit: 500}
	for n, want := range []string{"a b c", "a", "a b c"} {
		text, revision := names(t, c, ns, older)
		if text != want {
			t.Errorf("list %d has %q, want %q", n, text, want)
		}
		if n == 1 {
			if seen := watchFrom(t, c, ns, revision, 2); !slices.Equal(seen, []string{"ADDED b", "ADDED c"}) {
				t.Errorf("observed %q", seen)
			}
		}
		if text, _ := names(t, c, ns, metav1.ListOptions{}); text != "a b c" {
			t.Errorf("the newest state has %q", text)
		}
	}
	initial := metav1.ListOptions{SendInitialEvents: ptr.To(true), ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan, AllowWatchBookmarks: true}
	if _, err := c.CoreV1().ConfigMaps(ns).Watch(t.Context(), initial); !apierrors.IsInternalError(err) {
		t.Errorf("the watch: %v", err)
	}
	for _, want := range []string{"a b", "a b c"} {
		if text, _ := names(t, c, ns, older); text != want {
			t.Errorf("the list has %q, want %q", text, want)
		}
	}
	r.End()
}

// TestOtherServer: the watches of the client end. Until the hold ends, new watches deliver nothing, and lists that permit an older
// state do not contain later writes.
func TestOtherServer(t *testing.T) {
	p := newProxy(t)
	c, ns := through(t, p, "c", admin), namespace(t)
	r := begin(t, p, proxy.Hooks{}, "other-server actor=c verb=create resource=configmaps nth=2 for=1h")
	must(t, create(t.Context(), c, ns, "a"))
	w := follow(t, c, ns)
	must(t, create(t.Context(), c, ns, "b"))
	if seen := events(t, w, 1); !slices.Equal(seen, []string{"end"}) {
		t.Errorf("observed %q", seen)
	}
	text, revision := names(t, c, ns, metav1.ListOptions{ResourceVersion: "0"})
	newest, _ := names(t, c, ns, metav1.ListOptions{})
	if text != "a" || newest != "a b" {
		t.Errorf("any state has %q, the newest %q", text, newest)
	}
	o := mine
	o.ResourceVersion = revision
	behind, err := c.CoreV1().ConfigMaps(ns).Watch(t.Context(), o)
	must(t, err)
	defer behind.Stop()
	// Another client shows that the events have been sent: this one has received none.
	must(t, create(t.Context(), c, ns, "c"))
	if seen := watchFrom(t, direct, ns, revision, 2); !slices.Equal(seen, []string{"ADDED b", "ADDED c"}) {
		t.Errorf("another client observed %q", seen)
	}
	select {
	case e := <-behind.ResultChan():
		t.Errorf("observed %s %s", e.Type, e.Object.(*corev1.ConfigMap).Name)
	default:
	}
	r.End()
	if seen := events(t, behind, 2); !slices.Equal(seen, []string{"ADDED b", "ADDED c"}) {
		t.Errorf("observed %q", seen)
	}
}

// TestExpiredPage: a request for a further page is answered 410, with a token for the rest of the list as it is now.
func TestExpiredPage(t *testing.T) {
	p := newProxy(t)
	c, ns := through(t, p, "c", admin), namespace(t)
	begin(t, p, proxy.Hooks{}, "expired-page actor=c resource=configmaps")
	for _, name := range []string{"a", "b", "c"} {
		must(t, create(t.Context(), c, ns, name))
	}
	first, err := c.CoreV1().ConfigMaps(ns).List(t.Context(), metav1.ListOptions{Limit: 1})
	must(t, err)
	must(t, create(t.Context(), c, ns, "aa"))
	_, err = c.CoreV1().ConfigMaps(ns).List(t.Context(), metav1.ListOptions{Limit: 1, Continue: first.Continue})
	if !apierrors.IsResourceExpired(err) {
		t.Fatalf("the second page: %v", err)
	}
	rest, _ := names(t, c, ns, metav1.ListOptions{Continue: err.(apierrors.APIStatus).Status().Continue})
	if rest != "aa b c" {
		t.Errorf("the rest has %q", rest)
	}
}

// TestStateIsGone: if the server does not have the older state any more, the list is answered as it is, and no step names the
// fault.
func TestStateIsGone(t *testing.T) {
	config := rest.CopyConfig(admin)
	transport, err := rest.TransportFor(admin)
	must(t, err)
	config.TLSClientConfig = rest.TLSClientConfig{}
	config.Transport = compacted{transport}
	p, err := proxy.New(config)
	must(t, err)
	c, ns := through(t, p, "c", admin), namespace(t)
	r := begin(t, p, proxy.Hooks{}, "stale-list actor=c resource=configmaps verb=list")
	must(t, create(t.Context(), c, ns, "a"))
	if text, _ := names(t, c, ns, metav1.ListOptions{ResourceVersion: "0"}); text != "a" {
		t.Errorf("the list has %q", text)
	}
	for _, s := range r.End().Steps {
		if s.Fault != "" {
			t.Errorf("step %d names %s", s.N, s.Fault)
		}
	}
}

// compacted is the transport to a server whose etcd has been compacted: it has no older state.
type compacted struct{ http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (t compacted) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Query().Get("resourceVersionMatch") != "Exact" {
		return t.RoundTripper.RoundTrip(r)
	}
	return &http.Response{StatusCode: http.StatusGone, Header: http.Header{}, Body: http.NoBody, Request: r}, nil
}
