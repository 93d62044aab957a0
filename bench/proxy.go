package main

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/rehearse-k8s/rehearse/history"
	"github.com/rehearse-k8s/rehearse/internal/proxy"
)

func proxyCommand(binary *string, out *figures) *cobra.Command {
	l := load{out: out}
	c := &cobra.Command{
		Use:   "proxy",
		Short: "Create pods through the fault proxy, with everything recorded and no fault, and compare its objects with the server's",
		RunE:  func(cmd *cobra.Command, _ []string) error { return l.throughProxy(cmd.Context(), binary) },
	}
	l.addFlags(c, 1000, 10000, 32)
	return c
}

func (l load) throughProxy(ctx context.Context, binary *string) error {
	s, direct, err := l.connect(ctx, binary)
	if err != nil {
		return err
	}
	defer s.stop()
	config, err := s.config()
	if err != nil {
		return err
	}
	p, err := proxy.New(config)
	if err != nil {
		return err
	}
	listener, err := p.Listen("client", config)
	if err != nil {
		return err
	}
	defer func() { _ = listener.Close() }()
	behind, err := kubernetes.NewForConfig(listener.Config())
	if err != nil {
		return err
	}
	run, err := p.Begin(history.Header{}, nil, proxy.Hooks{})
	if err != nil {
		return err
	}
	start := time.Now()
	if err := l.fill(ctx, behind); err != nil {
		return err
	}
	took := time.Since(start)
	differ, err := l.compare(ctx, direct, behind)
	if err != nil {
		return err
	}
	record := run.End()
	l.out.add(fmt.Sprintf("%d pods through the proxy", l.pods), "%.0f Ready a second (%.1f s), %d steps recorded, %d objects differ from those at the server",
		float64(l.pods)/took.Seconds(), took.Seconds(), len(record.Steps), differ)
	if differ > 0 {
		return fmt.Errorf("%d of %d objects differ through the proxy", differ, l.pods)
	}
	return nil
}

// compare counts the pods that differ between the server and the proxy: as objects, and as bytes of
// a whole list.
func (l load) compare(ctx context.Context, direct, behind kubernetes.Interface) (differ int, err error) {
	at, err := direct.CoreV1().Pods("default").List(ctx, metav1.ListOptions{ResourceVersion: ""})
	if err != nil {
		return 0, err
	}
	exact := metav1.ListOptions{ResourceVersion: at.ResourceVersion, ResourceVersionMatch: metav1.ResourceVersionMatchExact}
	through, err := behind.CoreV1().Pods("default").List(ctx, exact)
	if err != nil {
		return 0, err
	}
	if len(at.Items) != len(through.Items) || len(at.Items) != l.pods {
		return l.pods, fmt.Errorf("%d pods at the server, %d through the proxy, %d were created", len(at.Items), len(through.Items), l.pods)
	}
	for i := range at.Items {
		if !equality.Semantic.DeepEqual(at.Items[i], through.Items[i]) {
			differ++
		}
	}
	raw := func(client kubernetes.Interface) ([]byte, error) {
		return client.CoreV1().RESTClient().Get().Namespace("default").Resource("pods").
			Param("resourceVersion", at.ResourceVersion).Param("resourceVersionMatch", "Exact").Do(ctx).Raw()
	}
	a, err := raw(direct)
	if err != nil {
		return differ, err
	}
	b, err := raw(behind)
	if err == nil && !bytes.Equal(a, b) {
		err = fmt.Errorf("a list of %d bytes differs through the proxy", len(a))
	}
	return differ, err
}
