package apiserver_test

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"

	"github.com/rehearse-k8s/rehearse/internal/apiserver"
)

// TestEtcdMembers runs over an etcd of three members: one of them, the leader, is stopped during writes, and then the connection of
// another one becomes slow. No acknowledged write is lost, and a watch delivers each object once, in the order of the writes.
func TestEtcdMembers(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	members := startEtcdMembers(ctx, t, 3)
	leader := slices.IndexFunc(members, func(m *etcdMember) bool { return m.etcd.Server.Leader() == m.etcd.Server.MemberID() })
	if leader < 0 {
		t.Fatal("no member leads")
	}
	etcd := apiserver.Etcd{Prefix: "/registry"}
	for i := range members { // the leader, which is stopped, is the first one
		etcd.Servers = append(etcd.Servers, members[(leader+i)%len(members)].client.String())
	}
	if err := etcd.Check(ctx); err != nil {
		t.Fatal(err)
	}
	s, err := start(ctx, t.TempDir(), etcd)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Stop()
	api := client(t, s)
	events, ended := watchConfigMaps(ctx, t, api)
	var written []string
	write := func(phase string, n int) {
		for i := range n {
			name := fmt.Sprintf("%s-%02d", phase, i)
			createConfigMap(ctx, t, api, name)
			written = append(written, name)
		}
	}
	write("all", 20)
	stopped := make(chan struct{})
	go func() {
		members[leader].stop()
		close(stopped)
	}()
	write("two", 20)
	<-stopped
	members[(leader+1)%len(members)].delay.Store(int64(50 * time.Millisecond))
	write("slow", 10)

	list, err := api.CoreV1().ConfigMaps("default").List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var listed []string
	for i := range list.Items {
		listed = append(listed, list.Items[i].Name)
	}
	if want := slices.Sorted(slices.Values(written)); !slices.Equal(listed, want) {
		t.Errorf("listed %q, want %q", listed, want)
	}
	write("last", 1) // after all others, also after an event that is delivered twice
	for _, want := range written {
		select {
		case err := <-ended:
			t.Fatal(err)
		case got := <-events:
			if got != want {
				t.Fatalf("the watch delivers %q, want %q", got, want)
			}
		case <-ctx.Done():
			t.Fatalf("the watch does not deliver %s", want)
		}
	}
}

// createConfigMap creates a ConfigMap. While the members elect another leader, the API server answers with errors, after which the object may
// exist.
func createConfigMap(ctx context.Context, t *testing.T, api kubernetes.Interface, name string) {
	t.Helper()
	for n := 0; ; n++ {
		_, err := api.CoreV1().ConfigMaps("default").Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		if err == nil || n > 0 && apierrors.IsAlreadyExists(err) {
			return
		}
		t.Logf("create %s: %v", name, err)
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			t.FailNow()
		}
	}
}

// watchConfigMaps returns the names of the ConfigMaps that a watch delivers, and the error after which it cannot continue. If the watch
// ends, it continues after its last event.
func watchConfigMaps(ctx context.Context, t *testing.T, api kubernetes.Interface) (<-chan string, <-chan error) {
	t.Helper()
	list, err := api.CoreV1().ConfigMaps("default").List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	names, ended, revision := make(chan string, 1000), make(chan error, 1), list.ResourceVersion
	go func() {
		for ctx.Err() == nil {
			w, err := api.CoreV1().ConfigMaps("default").Watch(ctx, metav1.ListOptions{ResourceVersion: revision})
			if err != nil {
				<-time.After(50 * time.Millisecond)
				continue
			}
			for e := range w.ResultChan() {
				c, ok := e.Object.(*corev1.ConfigMap)
				if !ok {
					ended <- apierrors.FromObject(e.Object)
					return
				}
				if revision = c.ResourceVersion; e.Type != watch.Bookmark {
					names <- c.Name
				}
			}
		}
	}()
	return names, ended
}

// etcdMember is a member of an etcd cluster. The other members reach it through a connection that becomes slow if delay is set.
type etcdMember struct {
	etcd   *embed.Etcd
	stop   func()
	client url.URL
	delay  atomic.Int64
}

func startEtcdMembers(ctx context.Context, t *testing.T, n int) []*etcdMember {
	t.Helper()
	members, configs := make([]*etcdMember, n), make([]*embed.Config, n)
	cluster := ""
	for i := range members {
		members[i] = &etcdMember{client: freeURL(t)}
		c := embed.NewConfig()
		peer := freeURL(t)
		slow := slowProxy(t, peer.Host, &members[i].delay)
		c.Name, c.Dir, c.Logger, c.LogLevel = fmt.Sprint("m", i), t.TempDir(), "zap", "fatal"
		c.TickMs, c.ElectionMs = 50, 500
		c.ListenClientUrls, c.AdvertiseClientUrls = []url.URL{members[i].client}, []url.URL{members[i].client}
		c.ListenPeerUrls, c.AdvertisePeerUrls = []url.URL{peer}, []url.URL{slow}
		cluster += fmt.Sprintf("%s=%s,", c.Name, slow.String())
		configs[i] = c
	}
	for i, c := range configs {
		c.InitialCluster = cluster[:len(cluster)-1]
		etcd, err := embed.StartEtcd(c)
		if err != nil {
			t.Fatal(err)
		}
		members[i].etcd, members[i].stop = etcd, sync.OnceFunc(etcd.Close)
		t.Cleanup(members[i].stop)
	}
	for _, m := range members {
		select {
		case <-m.etcd.Server.ReadyNotify():
		case err := <-m.etcd.Err():
			t.Fatal(err)
		case <-ctx.Done():
			t.Fatal("a member is not ready")
		}
	}
	return members
}

// freeURL returns an address of the loopback interface that was free.
func freeURL(t *testing.T) url.URL {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return url.URL{Scheme: "http", Host: l.Addr().String()}
}

// slowProxy forwards connections to an address. It holds each piece of data for the delay, in both directions.
func slowProxy(t *testing.T, to string, delay *atomic.Int64) url.URL {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	forward := func(from, to net.Conn) {
		defer from.Close()
		defer to.Close()
		data := make([]byte, 64<<10)
		for {
			n, err := from.Read(data)
			if d := delay.Load(); d > 0 {
				<-time.After(time.Duration(d))
			}
			if _, failed := to.Write(data[:n]); err != nil || failed != nil {
				return
			}
		}
	}
	go func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", to)
			if err != nil {
				_ = in.Close()
				continue
			}
			go forward(in, out)
			go forward(out, in)
		}
	}()
	return url.URL{Scheme: "http", Host: l.Addr().String()}
}
