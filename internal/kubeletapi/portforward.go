package kubeletapi

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/cri-streaming/pkg/streaming/portforward"

	"github.com/rehearse-k8s/rehearse/api/kwok/v1alpha1"
	"github.com/rehearse-k8s/rehearse/internal/kubeletapi/rules"
)

// dialTimeout limits the connection to a target.
const dialTimeout = 10 * time.Second

// portForward answers `kubectl port-forward`. A PortForward or ClusterPortForward object defines the target of each port.
func (s *Server) portForward(w http.ResponseWriter, r *http.Request) {
	if s.rejectsCommands(w, "port-forward") {
		return
	}
	options, err := portforward.NewV4Options(r)
	if err != nil {
		fail(w, err, http.StatusBadRequest)
		return
	}
	t, err := s.target(r.Context(), r.PathValue("namespace"), r.PathValue("pod"), "")
	if err == nil {
		err = checkUID(t, r.PathValue("uid"))
	}
	if err != nil {
		fail(w, err, statusOf(err))
		return
	}
	ctx, w, stop := untilLost(w, r)
	defer stop()
	portforward.ServePortForward(w, r.WithContext(ctx), forwarder{s, ctx, t}, t.pod.Name, string(t.pod.UID),
		options, idleTimeout, streamCreationTimeout, []string{portforward.ProtocolV1Name})
}

// forwarder implements portforward.PortForwarder for one connection of a client.
type forwarder struct {
	server *Server
	ctx    context.Context // ends with the connection of the client
	target target
}

// PortForward copies between a stream and the target of a port until the target closes its side or the client leaves.
func (f forwarder) PortForward(_ context.Context, _, _ string, port int32, stream io.ReadWriteCloser) error {
	m, err := f.server.forwardRule(f.ctx, f.target, port)
	if err != nil {
		return err
	}
	if len(m.Entry.Command) > 0 {
		err = runForward(f.ctx, m.Entry.Command, stream)
	} else {
		err = dialForward(f.ctx, *m.Entry.Target, stream)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", m.Object, err)
	}
	return nil
}

// forwardRule selects the entry for a port. Without one it returns an error, because a simulated container listens on no port.
func (s *Server) forwardRule(ctx context.Context, t target, port int32) (*rules.Match[v1alpha1.Forward], error) {
	stored, err := s.stored(ctx, t, "portforwards", "clusterportforwards")
	if err != nil {
		return nil, err
	}
	m, err := rules.PortForward(slices.Concat(s.options.Rules.Forwards, stored.Forwards), t.pod.Namespace, t.pod.Name, port)
	switch {
	case err != nil:
		return nil, err
	case m == nil:
		return nil, fmt.Errorf("no PortForward or ClusterPortForward object applies to port %d of pod %q: its containers are simulated", port, t.pod.Namespace+"/"+t.pod.Name)
	case len(m.Entry.Command) == 0 && m.Entry.Target == nil:
		return nil, fmt.Errorf("%s has neither target nor command for port %d", m.Object, port)
	}
	return m, nil
}

// dialForward connects to a TCP target. Each side can end its direction while the other one continues.
func dialForward(ctx context.Context, t v1alpha1.ForwardTarget, stream io.ReadWriter) error {
	d := net.Dialer{Timeout: dialTimeout}
	conn, err := d.DialContext(ctx, "tcp", net.JoinHostPort(strings.Trim(t.Address, "[]"), strconv.Itoa(int(t.Port))))
	if err != nil {
		return fmt.Errorf("target: %w; start a server at this address, or change the target", err)
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	go func() { // ends when the caller closes the stream
		_, _ = io.Copy(conn, stream)
		if c, ok := conn.(*net.TCPConn); ok {
			_ = c.CloseWrite()
		}
	}()
	if _, err := io.Copy(stream, conn); err != nil && ctx.Err() == nil && !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}

// lastOutput limits how much of a command's stderr its error contains.
const lastOutput = 1 << 10

// runForward runs a command with the stream as its stdin and stdout.
func runForward(ctx context.Context, command []string, stream io.ReadWriteCloser) error {
	c := exec.CommandContext(ctx, command[0], command[1:]...)
	c.WaitDelay = outputTimeout
	messages := &limitedBuffer{}
	if err := setUser(c, nil); err != nil {
		return err
	}
	err := run(c, stream, stream, messages)
	switch {
	case err == nil || errors.Is(err, exec.ErrWaitDelay):
		return nil
	case c.Process == nil:
		return fmt.Errorf("command: %w", startError(command[0], err))
	}
	return fmt.Errorf("%s: %w%s", command[0], err, messages)
}

// limitedBuffer keeps the first bytes that are written to it.
type limitedBuffer struct{ bytes.Buffer }

// Write implements io.Writer.
func (b *limitedBuffer) Write(p []byte) (int, error) {
	_, _ = b.Buffer.Write(p[:min(len(p), lastOutput-b.Len())])
	return len(p), nil
}

// Close implements io.Closer.
func (*limitedBuffer) Close() error { return nil }

// String returns the text on one line, as the rest of an error.
func (b *limitedBuffer) String() string {
	if text := strings.Join(strings.Fields(b.Buffer.String()), " "); text != "" {
		return ": " + text
	}
	return ""
}
