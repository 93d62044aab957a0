package simulate

import (
	"context"
	"crypto/tls"
	"fmt"
	"sync"

	"k8s.io/client-go/rest"

	"github.com/rehearse-k8s/rehearse/internal/controller/podcache"
	"github.com/rehearse-k8s/rehearse/internal/kubeletapi"
	"github.com/rehearse-k8s/rehearse/internal/kubeletapi/rules"
	"github.com/rehearse-k8s/rehearse/internal/probes"
	"github.com/rehearse-k8s/rehearse/internal/resourcemetrics"
)

// KubeletOptions configure the kubelet API of the simulated nodes.
type KubeletOptions struct {
	// Address is the address to listen at, as in :10250.
	Address string
	// CertFile and KeyFile are the serving certificate; empty: a self-signed one.
	CertFile, KeyFile string
	// EnableExec allows exec and port-forward.
	EnableExec bool
	// Rules are the objects from files.
	Rules *rules.Set
}

func (o *KubeletOptions) on() bool { return o.Address != "" && o.Address != probes.Off }

// certificate loads the files of the serving certificate. Without files it returns nil.
func (o *KubeletOptions) certificate() (*tls.Certificate, error) {
	if o.CertFile == "" {
		return nil, nil
	}
	pair, err := tls.LoadX509KeyPair(o.CertFile, o.KeyFile)
	if err != nil {
		return nil, fmt.Errorf("--kubelet-cert-file %s, --kubelet-key-file %s: %w", o.CertFile, o.KeyFile, err)
	}
	return &pair, nil
}

// serveKubelet serves the kubelet API until the returned function is called, on standbys too. The nodes that the stages initialize point
// to it.
func (s *simulation) serveKubelet(ctx context.Context) (stop func(), err error) {
	if s.Kubelet == nil {
		return func() {}, nil
	}
	pods, err := podcache.New(s.Config)
	if err != nil {
		return nil, err
	}
	usage := resourcemetrics.New(resourcemetrics.Options{Rules: s.Kubelet.Rules, Serves: s.Stage.Manage.Matches})
	usage.Connect(s.Config, pods)
	o := kubeletapi.Options{
		Config: func() *rest.Config { return s.Config }, Rules: s.Kubelet.Rules, NodePaths: usage.NodePaths(), NodeOfPath: usage.NodeOfPath,
		Discovery: usage.ServeDiscovery, Serves: s.Stage.Manage.Matches,
	}
	if !s.Kubelet.EnableExec {
		o.NoCommands = "start 'rehearse simulate' with --enable-exec"
	}
	pair, err := s.Kubelet.certificate()
	if err != nil {
		return nil, err
	}
	listener, err := kubeletapi.New(o).Listen(ctx, kubeletapi.ListenOptions{
		Address: s.Kubelet.Address, NodeIP: s.Stage.NodeIP, Certificate: pair, Config: s.Config,
	})
	if err != nil {
		return nil, fmt.Errorf("--kubelet-address %s: %w", s.Kubelet.Address, err)
	}
	stage := *s.Stage
	stage.Pods = pods
	if stage.NodePort == 0 {
		stage.NodePort = listener.Address().Port
	}
	s.Stage, s.usage = &stage, usage
	work, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var running sync.WaitGroup
	running.Go(func() { pods.Run(work) })
	s.Say("The kubelet API of the nodes is at %s:%d, for kubectl logs and attach%s.", stage.NodeIP, stage.NodePort, also(s.Kubelet.EnableExec))
	return func() {
		listener.Close()
		cancel()
		running.Wait()
	}, nil
}

func also(exec bool) string {
	if exec {
		return ", exec and port-forward"
	}
	return ""
}
