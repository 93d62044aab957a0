package simulate

import (
	"io"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/rehearse-k8s/rehearse/internal/cli/console"
)

// TestNodeLeaseDuration: with the flags --kubeconfig and --node-lease-duration, the lease of a node has this duration and is renewed; with 0
// there is none.
func TestNodeLeaseDuration(t *testing.T) {
	w := newWorld(t, 0)
	config := clientcmdapi.NewConfig()
	config.Clusters["c"] = &clientcmdapi.Cluster{Server: w.admin.Host, CertificateAuthorityData: w.admin.CAData}
	config.AuthInfos["c"] = &clientcmdapi.AuthInfo{ClientCertificateData: w.admin.CertData, ClientKeyData: w.admin.KeyData}
	config.Contexts["c"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "c"}
	config.CurrentContext = "c"
	file := filepath.Join(t.TempDir(), "config")
	if err := clientcmd.WriteToFile(*config, file); err != nil {
		t.Fatal(err)
	}
	leases := w.client.CoordinationV1().Leases(corev1.NamespaceNodeLease)
	for name, c := range map[string]struct {
		args    []string
		seconds int32 // 0: no lease
	}{
		"default": {nil, 40},
		"short":   {[]string{"--node-lease-duration=4s"}, 4},
		"long":    {[]string{"--node-lease-duration", "200s"}, 200},
		"none":    {[]string{"--node-lease-duration=0"}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"run": name}}}
			if _, err := w.client.CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			// Not the whole command, which also sets the log of the process: that of the cluster of this test.
			terminal := console.New(console.Streams{In: strings.NewReader(""), Out: io.Discard, Err: io.Discard})
			o, cmd := &flags{}, &cobra.Command{}
			o.addFlags(cmd, terminal)
			err := cmd.ParseFlags(append([]string{"--kubeconfig", file, "--manage", "label:run=" + name}, c.args...))
			if err == nil {
				err = o.validate(cmd)
			}
			if err != nil {
				t.Fatal(err)
			}
			config, _, err := o.target(terminal)
			if err != nil {
				t.Fatal(err)
			}
			r := w.replica(config, func(all *Options) { all.Stage = &o.stage })
			w.await("node "+name+" is Ready", func() bool {
				n, err := w.client.CoreV1().Nodes().Get(t.Context(), name, metav1.GetOptions{})
				if err != nil {
					t.Fatal(err)
				}
				for _, condition := range n.Status.Conditions {
					if condition.Type == corev1.NodeReady && condition.Status == corev1.ConditionTrue {
						return true
					}
				}
				return false
			})
			w.pod("on-"+name, name)
			w.awaitRunning("on-" + name)
			if c.seconds == 0 {
				if l, err := leases.Get(t.Context(), name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
					t.Errorf("got %v, %v, want no lease", l, err)
				}
			} else {
				var first time.Time
				w.await("the lease of node "+name, func() bool {
					l, err := leases.Get(t.Context(), name, metav1.GetOptions{})
					if err != nil {
						return false
					}
					if *l.Spec.LeaseDurationSeconds != c.seconds || *l.Spec.HolderIdentity != name {
						t.Fatalf("%+v", l.Spec)
					}
					if first.IsZero() {
						first = l.Spec.RenewTime.Time
					}
					// Only the short one is renewed while the test runs.
					return c.seconds > 4 || l.Spec.RenewTime.After(first)
				})
			}
			r.end(nil)
		})
	}
}
