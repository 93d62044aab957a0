package simulate

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/client-go/transport/spdy"
	certutil "k8s.io/client-go/util/cert"
	"sigs.k8s.io/yaml"

	"github.com/rehearse-k8s/rehearse/internal/controller/nodepressure"
	"github.com/rehearse-k8s/rehearse/internal/controller/stages"
	"github.com/rehearse-k8s/rehearse/internal/kubeletapi/rules"
)

// kubelet is a replica that serves the kubelet API of node n, whose pod p runs. The node is simulated because of a label, so the API
// server has no answer of its own for it.
func (w *world) kubelet(objects string, change func(*KubeletOptions)) (r *replica, port int32) {
	w.t.Helper()
	set := &rules.Set{}
	for text := range strings.SplitSeq(objects, "---\n") {
		data, err := yaml.YAMLToJSON([]byte(text))
		if err == nil {
			err = set.AddObject(data)
		}
		if err != nil {
			w.t.Fatal(err)
		}
	}
	filter, err := stages.ParseNodeFilter("label:simulated=yes")
	if err != nil {
		w.t.Fatal(err)
	}
	r = w.replica(w.admin, func(o *Options) {
		o.Stage.Manage, o.Stage.NodeIP = filter, "127.0.0.1"
		o.Kubelet = &KubeletOptions{Address: "127.0.0.1:0", Rules: set}
		if change != nil {
			change(o.Kubelet)
		}
	})
	r.hears("kubelet API")
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{GenerateName: "n", Labels: map[string]string{"simulated": "yes"}}}
	if node, err = w.client.CoreV1().Nodes().Create(w.t.Context(), node, metav1.CreateOptions{}); err != nil {
		w.t.Fatal(err)
	}
	w.pod("p-"+node.Name, node.Name)
	w.awaitRunning("p-" + node.Name)
	w.await("the port of the node", func() bool {
		n, err := w.client.CoreV1().Nodes().Get(w.t.Context(), node.Name, metav1.GetOptions{})
		if err == nil {
			port = n.Status.DaemonEndpoints.KubeletEndpoint.Port
		}
		return port != 0
	})
	w.node = node.Name
	return r, port
}

func (w *world) exec(command ...string) (string, error) {
	w.t.Helper()
	url := w.client.CoreV1().RESTClient().Get().Namespace("default").Resource("pods").Name("p-"+w.node).SubResource("exec").
		VersionedParams(&corev1.PodExecOptions{Container: "c", Command: command, Stdout: true}, scheme.ParameterCodec).URL()
	e, err := remotecommand.NewWebSocketExecutor(w.admin, http.MethodGet, url.String())
	if err != nil {
		w.t.Fatal(err)
	}
	var out bytes.Buffer
	err = e.StreamWithContext(w.t.Context(), remotecommand.StreamOptions{Stdout: &out})
	return out.String(), err
}

// forward connects to a port of the pod, and returns the answer.
func (w *world) forward(port int) (string, error) {
	w.t.Helper()
	url := w.client.CoreV1().RESTClient().Post().Namespace("default").Resource("pods").Name("p-" + w.node).SubResource("portforward").URL()
	roundTripper, upgrader, err := spdy.RoundTripperFor(w.admin)
	if err != nil {
		w.t.Fatal(err)
	}
	conn, _, err := spdy.NewDialer(upgrader, &http.Client{Transport: roundTripper}, http.MethodPost, url).Dial(portforward.PortForwardProtocolV1Name)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	headers := http.Header{}
	headers.Set(corev1.PortHeader, fmt.Sprint(port))
	headers.Set(corev1.PortForwardRequestIDHeader, "1")
	headers.Set(corev1.StreamType, corev1.StreamTypeError)
	problems, err := conn.CreateStream(headers)
	if err != nil {
		return "", err
	}
	_ = problems.Close()
	headers.Set(corev1.StreamType, corev1.StreamTypeData)
	data, err := conn.CreateStream(headers)
	if err != nil {
		return "", err
	}
	_ = data.Close()
	answer, err := io.ReadAll(data)
	if problem, _ := io.ReadAll(problems); len(problem) > 0 {
		err = errors.New(string(problem))
	}
	return string(answer), err
}

// TestKubelet: the API server reaches the kubelet API of a simulate command at a port: logs, usage and health; commands only with
// --enable-exec.
func TestKubelet(t *testing.T) {
	w := newWorld(t, 0)
	file := filepath.Join(t.TempDir(), "c.log")
	if err := os.WriteFile(file, []byte("2026-01-01T00:00:00Z stdout F hello\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	objects := "{apiVersion: kwok.x-k8s.io/v1alpha1, kind: ClusterLogs, metadata: {name: all}, spec: {logs: [{logsFile: " + file + "}]}}\n---\n" +
		"{apiVersion: kwok.x-k8s.io/v1alpha1, kind: ClusterExec, metadata: {name: all}, spec: {execs: [{local: {}}]}}\n---\n" +
		"{apiVersion: kwok.x-k8s.io/v1alpha1, kind: ClusterPortForward, metadata: {name: all}, spec: {forwards: [{ports: [80], command: [echo, forwarded]}]}}\n---\n" +
		"{apiVersion: kwok.x-k8s.io/v1alpha1, kind: Metric, metadata: {name: shop}, spec: {path: '/metrics/nodes/{nodeName}/shop', metrics: [{name: shop_nodes, kind: gauge, value: '1'}]}}\n"
	r, _ := w.kubelet(objects, nil)
	logs, err := w.client.CoreV1().Pods("default").GetLogs("p-"+w.node, &corev1.PodLogOptions{}).DoRaw(t.Context())
	if err != nil || string(logs) != "hello\n" {
		t.Errorf("%q, %v", logs, err)
	}
	if out, err := w.exec("echo", "yes"); err == nil || !strings.Contains(err.Error(), "exec is disabled: start 'rehearse simulate' with --enable-exec") {
		t.Errorf("%q, %v", out, err)
	}
	if out, err := w.forward(80); err == nil || !strings.Contains(err.Error(), "port-forward is disabled: start 'rehearse simulate' with --enable-exec") {
		t.Errorf("%q, %v", out, err)
	}
	// A pod on a node that this process does not simulate.
	other, err := w.client.CoreV1().Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "real"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	w.pod("elsewhere", other.Name)
	r.end(nil)

	r, port := w.kubelet(objects, func(o *KubeletOptions) { o.EnableExec = true })
	if out, err := w.exec("echo", "yes"); err != nil || out != "yes\n" {
		t.Errorf("%q, %v", out, err)
	}
	if out, err := w.forward(80); err != nil || out != "forwarded\n" {
		t.Errorf("%q, %v", out, err)
	}
	url := fmt.Sprintf("https://127.0.0.1:%d", port)
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	get := func(path, token string) (int, string) {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if token != "" {
			request.Header.Set("Authorization", "Bearer "+token)
		}
		if direct := strings.HasPrefix(path, "/discovery") || strings.HasSuffix(path, "/shop"); !direct {
			request.Header.Set("X-Forwarded-Uri", "/api/v1/nodes/"+w.node+"/proxy"+path) // as the API server's proxy of nodes, which refuses loopback addresses
		}
		answer, err := client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		body, err := io.ReadAll(answer.Body)
		if err != nil {
			t.Fatal(err)
		}
		return answer.StatusCode, string(body)
	}
	path := "/containerLogs/default/p-" + w.node + "/c"
	for _, path := range []string{path, "/livez", "/readyz"} {
		if code, body := get(path, ""); code != http.StatusUnauthorized {
			t.Errorf("%s without a token: %d %s", path, code, body)
		}
	}
	if code, body := get(path, "wrong"); code != http.StatusUnauthorized {
		t.Errorf("with a wrong token: %d %s", code, body)
	}
	review, err := w.client.CoreV1().ServiceAccounts("default").CreateToken(t.Context(), "default", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	token := review.Status.Token
	if code, body := get(path, token); code != http.StatusForbidden || !strings.Contains(body, "system:serviceaccount:default:default") || !strings.Contains(body, "subresource=proxy, name="+w.node) {
		t.Errorf("without a role: %d %s", code, body)
	}
	if code, body := get("/debug/pprof/cmdline", token); code != http.StatusForbidden || !strings.Contains(body, "subresource=proxy") {
		t.Errorf("a profile without a role: %d %s", code, body)
	}
	w.grant("monitoring", rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"nodes/healthz", "nodes/stats", "nodes/metrics"}, Verbs: []string{"get"}})
	for path, want := range map[string]string{"/stats/summary": `"nodeName":"` + w.node + `"`, "/metrics/resource": "pod_memory_working_set_bytes", "/healthz": "ok"} {
		if code, body := get(path, token); code != http.StatusOK || !strings.Contains(body, want) {
			t.Errorf("%s with a role for monitoring: %d %s", path, code, body)
		}
	}
	// A Prometheus server asks for what it can scrape, and scrapes it without the API server.
	shop := "/metrics/nodes/" + w.node + "/shop"
	entry := fmt.Sprintf(`{"targets":["127.0.0.1:%d"],"labels":{"__metrics_path__":%q,"__scheme__":"https","metrics_name":"shop"}}`, port, shop)
	if code, body := get("/discovery/prometheus", token); code != http.StatusOK || !strings.Contains(body, entry) || strings.Contains(body, "real") {
		t.Errorf("%d %s, want %s", code, body, entry)
	}
	if code, body := get(shop, token); code != http.StatusOK || !strings.Contains(body, "shop_nodes 1") {
		t.Errorf("%d %s", code, body)
	}
	if code, _ := get(shop, ""); code != http.StatusUnauthorized {
		t.Errorf("a scrape without a token: %d", code)
	}
	r.end(nil)

	// The answers that forbid are kept for a while, so the next process decides about the role.
	w.grant("all-nodes", rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"nodes/proxy"}, Verbs: []string{"get"}})
	r, port = w.kubelet(objects, nil)
	url = fmt.Sprintf("https://127.0.0.1:%d", port)
	path = "/containerLogs/default/p-" + w.node + "/c"
	if code, body := get(path, token); code != http.StatusOK || body != "hello\n" {
		t.Errorf("with a role: %d %s", code, body)
	}
	for _, path := range []string{"/healthz", "/livez", "/readyz"} {
		if code, body := get(path, token); code != http.StatusOK || body != "ok" {
			t.Errorf("%s with a role: %d %s", path, code, body)
		}
	}
	if code, body := get("/containerLogs/default/elsewhere/c", token); code != http.StatusNotFound || !strings.Contains(body, `is on node "real", which this process does not simulate`) {
		t.Errorf("another node: %d %s", code, body)
	}
	for path, want := range map[string]string{"cmdline": os.Args[0], "goroutine?debug=1": "goroutine profile", "": "heap", "trace?seconds=0.1": "go 1."} {
		if code, body := get("/debug/pprof/"+path, token); code != http.StatusOK || !strings.Contains(body, want) {
			t.Errorf("/debug/pprof/%s with a role: %d %.200s", path, code, body)
		}
	}
	r.end(nil)
	if _, err := client.Get(url + "/healthz"); err == nil {
		t.Error("the port is still open")
	}
}

// TestKubeletCertificate: the port serves the certificate of the files, which a client verifies with its authority, and the API server
// reaches the port too.
func TestKubeletCertificate(t *testing.T) {
	w := newWorld(t, 0)
	dir := t.TempDir()
	certFile, keyFile := filepath.Join(dir, "kubelet.crt"), filepath.Join(dir, "kubelet.key")
	chain, key, err := certutil.GenerateSelfSignedCertKey("nodes.example", []net.IP{net.IPv4(127, 0, 0, 1)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for file, data := range map[string][]byte{certFile: chain, keyFile: key} {
		if err := os.WriteFile(file, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	// livez asks the port with the administrator's credentials, and trusts the authority in the chain of the file.
	livez := func(port int32) (string, error) {
		config := rest.CopyConfig(w.admin)
		config.Host, config.CAData, config.CAFile = fmt.Sprintf("https://127.0.0.1:%d", port), chain, ""
		client, err := rest.HTTPClientFor(config)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := client.Get(config.Host + "/livez")
		if err != nil {
			return "", err
		}
		defer answer.Body.Close()
		body, err := io.ReadAll(answer.Body)
		return answer.Status + " " + string(body), err
	}
	const objects = "{apiVersion: kwok.x-k8s.io/v1alpha1, kind: ClusterExec, metadata: {name: all}, spec: {execs: [{local: {}}]}}"
	r, port := w.kubelet(objects, func(o *KubeletOptions) { o.CertFile, o.KeyFile = certFile, keyFile })
	if got, err := livez(port); err != nil || got != "200 OK ok" {
		t.Errorf("with the certificate of the files: %q, %v", got, err)
	}
	if _, err := w.client.CoreV1().Pods("default").GetLogs("p-"+w.node, &corev1.PodLogOptions{}).DoRaw(t.Context()); err != nil {
		t.Errorf("through the API server: %v", err)
	}
	r.end(nil)
	r, port = w.kubelet(objects, nil)
	if got, err := livez(port); err == nil || !strings.Contains(err.Error(), "certificate signed by unknown authority") {
		t.Errorf("with a certificate that no authority has signed: %q, %v", got, err)
	}
	r.end(nil)

	missing, other := filepath.Join(dir, "missing.key"), filepath.Join(dir, "other.key")
	_, otherKey, err := certutil.GenerateSelfSignedCertKey("other.example", nil, nil)
	if err == nil {
		err = os.WriteFile(other, otherKey, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]string{
		missing: "open " + missing + ": no such file or directory",
		other:   "tls: private key does not match public key",
	} {
		r := w.replica(w.admin, func(o *Options) {
			o.Stage.NodeIP = "127.0.0.1"
			o.Kubelet = &KubeletOptions{Address: "127.0.0.1:0", CertFile: certFile, KeyFile: key, Rules: &rules.Set{}}
		})
		if err := <-r.done; err == nil || err.Error() != "--kubelet-cert-file "+certFile+", --kubelet-key-file "+key+": "+want {
			t.Errorf("got %v, want the flags and %s", err, want)
		}
		r.done <- nil // the end of the test expects no error
	}
}

// TestNodePressure: a simulate command with a kubelet API evicts a pod of its node that runs out of memory. It does not change a node
// that it does not simulate, whose usage is the same.
func TestNodePressure(t *testing.T) {
	w := newWorld(t, 0)
	w.kubelet("{apiVersion: kwok.x-k8s.io/v1alpha1, kind: ClusterResourceUsage, metadata: {name: all}, spec: {usages: [{usage: {memory: {value: 700Gi}}}]}}", nil)
	threshold := map[string]string{nodepressure.AnnotationHard: "memory.available<400Gi"}
	other := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "other", Annotations: threshold}, Status: corev1.NodeStatus{Capacity: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Ti")}}}
	if _, err := w.client.CoreV1().Nodes().Create(t.Context(), other, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	w.pod("p-other", "other")
	running := `{"status":{"phase":"Running","startTime":"2026-01-01T00:00:00Z","containerStatuses":[{"name":"c","image":"x","imageID":"","ready":true,"restartCount":0,"state":{"running":{"startedAt":"2026-01-01T00:00:00Z"}}}]}}`
	if _, err := w.client.CoreV1().Pods("default").Patch(t.Context(), "p-other", types.StrategicMergePatchType, []byte(running), metav1.PatchOptions{}, "status"); err != nil {
		t.Fatal(err)
	}
	patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, nodepressure.AnnotationHard, threshold[nodepressure.AnnotationHard])
	if _, err := w.client.CoreV1().Nodes().Patch(t.Context(), w.node, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	pod := func(name string) (p *corev1.Pod) {
		t.Helper()
		p, err := w.client.CoreV1().Pods("default").Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	pressure := func(name string) (s corev1.ConditionStatus) {
		t.Helper()
		n, err := w.client.CoreV1().Nodes().Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range n.Status.Conditions {
			if c.Type == corev1.NodeMemoryPressure {
				s = c.Status
			}
		}
		return s
	}
	w.await("the eviction", func() bool { return pod("p-"+w.node).Status.Reason == "Evicted" })
	if got := pressure(w.node); got != corev1.ConditionTrue {
		t.Errorf("MemoryPressure is %s", got)
	}
	if phase, got := pod("p-other").Status.Phase, pressure("other"); phase != corev1.PodRunning || got != "" {
		t.Errorf("of the other node: the pod is %s, MemoryPressure is %q", phase, got)
	}
}

// TestNodePressureFollows: the controller of node pressure does not run before the replica leads.
func TestNodePressureFollows(t *testing.T) {
	ran := false
	p := nodePressure{run: func(context.Context) { ran = true }, lead: make(chan struct{})}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := p.Run(ctx); err != nil || ran {
		t.Errorf("%v; ran without the lease: %t", err, ran)
	}
	lead := make(chan struct{})
	close(lead)
	p.lead = lead
	if err := p.Run(t.Context()); err != nil || !ran {
		t.Errorf("%v; ran with the lease: %t", err, ran)
	}
	<-p.Synced()
}

// grant gives the default service account a role for all nodes.
func (w *world) grant(name string, rule rbacv1.PolicyRule) {
	w.t.Helper()
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: []rbacv1.PolicyRule{rule}}
	binding := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: name}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: "default", Name: "default"}}}
	if _, err := w.client.RbacV1().ClusterRoles().Create(w.t.Context(), role, metav1.CreateOptions{}); err != nil {
		w.t.Fatal(err)
	}
	if _, err := w.client.RbacV1().ClusterRoleBindings().Create(w.t.Context(), binding, metav1.CreateOptions{}); err != nil {
		w.t.Fatal(err)
	}
	for _, resource := range rule.Resources {
		w.awaitAllowed(resource)
	}
}

// awaitAllowed waits until the API server, whose authorizer has a cache of roles, allows the service account to get a subresource of nodes: a kubelet
// would keep a denial for half a minute.
func (w *world) awaitAllowed(resource string) {
	w.t.Helper()
	resource, subresource, _ := strings.Cut(resource, "/")
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User:               "system:serviceaccount:default:default",
		ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "get", Resource: resource, Subresource: subresource},
	}}
	err := wait.PollUntilContextTimeout(w.t.Context(), 10*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		answer, err := w.client.AuthorizationV1().SubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
		return err == nil && answer.Status.Allowed, err
	})
	if err != nil {
		w.t.Fatalf("%s/%s is not allowed: %v", resource, subresource, err)
	}
}
