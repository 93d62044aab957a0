package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	nodefast "sigs.k8s.io/kwok/kustomize/stage/node/fast"
	heartbeat "sigs.k8s.io/kwok/kustomize/stage/node/heartbeat-with-lease"
	podfast "sigs.k8s.io/kwok/kustomize/stage/pod/fast"
)

// reference is a cluster of the three components, and with controllers also of kube-controller-manager and kube-scheduler.
type reference struct {
	name, kubeconfig string
	nodes            int
	controllers      bool

	dir    string
	failed chan error
	parts  []*exec.Cmd
}

func upCommand() *cobra.Command {
	var r reference
	c := &cobra.Command{
		Use:   "up",
		Short: "Start etcd, kube-apiserver and KWOK's controller, and stop them at SIGTERM",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return r.run(cmd.Context()) },
	}
	c.Flags().StringVar(&r.name, "name", "reference", "name of the context in the kubeconfig")
	c.Flags().StringVar(&r.kubeconfig, "kubeconfig", "", "file to write when the cluster is ready")
	c.Flags().IntVar(&r.nodes, "nodes", 3, "nodes to create")
	c.Flags().BoolVar(&r.controllers, "controllers", false, "also run kube-controller-manager and kube-scheduler, as kwokctl does")
	if err := c.MarkFlagRequired("kubeconfig"); err != nil {
		panic(err) // the flag exists
	}
	return c
}

// token is that of the only user.
const token = "reference"

func (r *reference) run(ctx context.Context) (err error) {
	if r.dir, err = os.MkdirTemp("", "reference-"); err != nil {
		return err
	}
	defer os.RemoveAll(r.dir)
	defer r.stop()
	r.failed = make(chan error, 5)
	etcdURL, apiPort, err := freeAddresses()
	if err != nil {
		return err
	}
	if err := r.start("etcd", filepath.Join(r.dir, "etcd"), etcdURL); err != nil {
		return err
	}
	if err := r.startAPIServer(etcdURL, apiPort); err != nil {
		return err
	}
	config := &rest.Config{Host: fmt.Sprintf("https://127.0.0.1:%d", apiPort), BearerToken: token, TLSClientConfig: rest.TLSClientConfig{Insecure: true}, QPS: -1}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	if err := r.await(ctx, client); err != nil {
		return err
	}
	private := filepath.Join(r.dir, "kubeconfig")
	if err := r.writeKubeconfig(private, config.Host); err != nil {
		return err
	}
	stages := filepath.Join(r.dir, "stages.yaml")
	if err := os.WriteFile(stages, []byte(shippedStages()), 0o600); err != nil {
		return err
	}
	// The lease of a node lasts 40 s, as with `rehearse up`.
	if err := r.start("kwok", "--config", stages, "--kubeconfig", private, "--manage-all-nodes", "--node-lease-duration-seconds=40", "--cidr=10.128.0.0/9"); err != nil {
		return err
	}
	if r.controllers {
		if err := r.startControllers(private); err != nil {
			return err
		}
	}
	if err := createServiceAccount(ctx, client); err != nil {
		return err
	}
	if err := createNodes(ctx, client, r.nodes); err != nil {
		return err
	}
	// The caller takes the file as the sign that the cluster is ready. KWOK's own file stays: it may not have been read yet.
	if err := r.writeKubeconfig(r.kubeconfig+".new", config.Host); err != nil {
		return err
	}
	if err := os.Rename(r.kubeconfig+".new", r.kubeconfig); err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return nil
	case err := <-r.failed:
		r.failed <- err // stop waits for every component
		return err
	}
}

// shippedStages are the stages that kwokctl uses: those that `rehearse up` plays by default have the same effects.
func shippedStages() string {
	return strings.Join([]string{
		nodefast.DefaultNodeInit, heartbeat.DefaultNodeHeartbeatWithLease,
		podfast.DefaultPodReady, podfast.DefaultPodComplete, podfast.DefaultPodDelete,
	}, "\n---\n")
}

// start starts a component as a process of its own, which ends with this one.
func (r *reference) start(component string, args ...string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	log, err := os.Create(filepath.Join(r.dir, component+".log"))
	if err != nil {
		return err
	}
	defer log.Close()
	c := exec.Command(self, append([]string{component}, args...)...)
	c.Stdout, c.Stderr = log, log
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := c.Start(); err != nil {
		return err
	}
	r.parts = append(r.parts, c)
	go func() {
		err := c.Wait()
		text, _ := os.ReadFile(log.Name())
		r.failed <- fmt.Errorf("%s ended: %v\n%s", component, err, text[max(0, len(text)-2000):])
	}()
	return nil
}

func (r *reference) stop() {
	for n := len(r.parts) - 1; n >= 0; n-- {
		_ = r.parts[n].Process.Kill()
	}
	for range r.parts {
		<-r.failed
	}
}

func (r *reference) startAPIServer(etcd string, port int) error {
	key := r.key()
	if err := writeKey(key); err != nil {
		return err
	}
	users := filepath.Join(r.dir, "users.csv")
	if err := os.WriteFile(users, []byte(token+",admin,admin,system:masters\n"), 0o600); err != nil {
		return err
	}
	return r.start("kube-apiserver",
		"--etcd-servers="+etcd, fmt.Sprintf("--secure-port=%d", port), "--bind-address=127.0.0.1", "--cert-dir="+filepath.Join(r.dir, "pki"),
		"--token-auth-file="+users, "--authorization-mode=RBAC", "--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-signing-key-file="+key, "--service-account-key-file="+key, "--service-cluster-ip-range=10.96.0.0/16",
		"--max-requests-inflight=0", "--max-mutating-requests-inflight=0", "--enable-priority-and-fairness=false")
}

// key is the file of the key that signs the tokens of service accounts.
func (r *reference) key() string { return filepath.Join(r.dir, "service-accounts.key") }

// startControllers starts kube-controller-manager and kube-scheduler. Neither waits for a lease, serves requests or limits its own
// ones, which is what `rehearse up` does too.
func (r *reference) startControllers(kubeconfig string) error {
	args := []string{"--kubeconfig=" + kubeconfig, "--leader-elect=false", "--secure-port=0", "--kube-api-qps=10000", "--kube-api-burst=20000"}
	if err := r.start("kube-controller-manager", append(args, "--service-account-private-key-file="+r.key())...); err != nil {
		return err
	}
	return r.start("kube-scheduler", args...)
}

// createServiceAccount creates the service account that pods of the namespace default get, so that they have the same volume
// with a token as those of `rehearse up`. kube-controller-manager creates it too, if it runs.
func createServiceAccount(ctx context.Context, client kubernetes.Interface) error {
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
	_, err := client.CoreV1().ServiceAccounts(metav1.NamespaceDefault).Create(ctx, account, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// await waits until the API server is ready.
func (r *reference) await(ctx context.Context, client kubernetes.Interface) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		if _, err := client.Discovery().RESTClient().Get().AbsPath("/readyz").DoRaw(ctx); err == nil {
			if _, err := client.CoreV1().Namespaces().Get(ctx, "default", metav1.GetOptions{}); err == nil {
				return nil
			}
		}
		select {
		case <-tick.C:
		case err := <-r.failed:
			r.failed <- errors.New("ended before")
			return err
		case <-ctx.Done():
			return fmt.Errorf("kube-apiserver is not ready: %w", ctx.Err())
		}
	}
}

func (r *reference) writeKubeconfig(path, host string) error {
	c := clientcmdapi.NewConfig()
	c.Clusters[r.name] = &clientcmdapi.Cluster{Server: host, InsecureSkipTLSVerify: true}
	c.AuthInfos[r.name] = &clientcmdapi.AuthInfo{Token: token}
	c.Contexts[r.name] = &clientcmdapi.Context{Cluster: r.name, AuthInfo: r.name}
	c.CurrentContext = r.name
	return clientcmd.WriteToFile(*c, path)
}

// createNodes creates nodes that are as large as those of `rehearse up`.
func createNodes(ctx context.Context, client kubernetes.Interface, n int) error {
	room := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("32"), corev1.ResourceMemory: resource.MustParse("256Gi"), corev1.ResourcePods: resource.MustParse("110")}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(16)
	for i := range n {
		g.Go(func() error {
			name := fmt.Sprintf("node-%d", i)
			node := &corev1.Node{
				ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name}},
				Status:     corev1.NodeStatus{Capacity: room, Allocatable: room},
			}
			_, err := client.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{})
			return err
		})
	}
	return g.Wait()
}

// writeKey writes the key that signs the tokens of service accounts.
func writeKey(path string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return err
	}
	return os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), 0o600)
}

// freeAddresses returns a URL for etcd and a port for the API server.
func freeAddresses() (etcd string, port int, err error) {
	ports := make([]int, 2)
	for n := range ports {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return "", 0, err
		}
		defer l.Close()
		ports[n] = l.Addr().(*net.TCPAddr).Port
	}
	return fmt.Sprintf("http://127.0.0.1:%d", ports[0]), ports[1], nil
}

func urls(text string) ([]url.URL, error) {
	u, err := url.Parse(text)
	if err != nil {
		return nil, err
	}
	return []url.URL{*u}, nil
}
