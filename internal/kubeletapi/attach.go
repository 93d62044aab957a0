package kubeletapi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"

	"k8s.io/cri-streaming/pkg/streaming/remotecommand"
	"k8s.io/utils/ptr"

	"github.com/rehearse-k8s/rehearse/api/kwok/v1alpha1"
	"github.com/rehearse-k8s/rehearse/internal/kubeletapi/logfile"
	"github.com/rehearse-k8s/rehearse/internal/kubeletapi/rules"
)

// attach answers `kubectl attach` with the new lines of the file that an Attach or ClusterAttach object names. It ignores the input of
// the client, and ends with the container.
func (s *Server) attach(w http.ResponseWriter, r *http.Request) {
	options, t, ok := s.streamTarget(w, r)
	if !ok {
		return
	}
	path, m, err := s.attachFile(r.Context(), t)
	if err != nil {
		fail(w, err, statusOf(err))
		return
	}
	ctx, w, stop := untilLost(w, r)
	defer stop()
	remotecommand.ServeAttach(w, r.WithContext(ctx), attacher{s, t, path, m}, t.pod.Name, string(t.pod.UID), t.container,
		options, idleTimeout, streamCreationTimeout, remotecommand.SupportedStreamingProtocols)
}

// attachFile selects the file for clients that attach to a container, and checks that it can be opened.
func (s *Server) attachFile(ctx context.Context, t target) (string, *rules.Match[v1alpha1.AttachConfig], error) {
	stored, err := s.stored(ctx, t, "attaches", "clusterattaches")
	if err != nil {
		return "", nil, err
	}
	m, err := rules.Attach(slices.Concat(s.options.Rules.Attaches, stored.Attaches), t.pod.Namespace, t.pod.Name, t.container)
	switch {
	case err != nil:
		return "", nil, err
	case m == nil:
		return "", nil, fmt.Errorf("no Attach or ClusterAttach object applies to container %q of pod %q, so it has no output: the container is simulated", t.container, t.pod.Namespace+"/"+t.pod.Name)
	case m.Entry.LogsFile == "":
		return "", nil, fmt.Errorf("%s has no logsFile for container %q", m.Object, t.container)
	}
	path, err := localPath(m.Entry.LogsFile)
	if err != nil {
		return "", nil, err
	}
	f, err := os.Open(path)
	if err != nil {
		return "", nil, fmt.Errorf("%s: %w", m.Object, err)
	}
	return path, m, f.Close()
}

// attacher implements remotecommand.Attacher.
type attacher struct {
	server *Server
	target target
	path   string
	match  *rules.Match[v1alpha1.AttachConfig]
}

// AttachContainer copies the new lines of the file to out, and those of stderr to errOut unless both share a terminal.
func (a attacher) AttachContainer(ctx context.Context, _, _, _ string, _ io.Reader, out, errOut io.WriteCloser, tty bool, _ <-chan remotecommand.TerminalSize) error {
	run, err := logInstance(a.target.pod, a.target.container, false)
	if err != nil {
		return err
	}
	o := logfile.Options{Follow: true, TailLines: ptr.To[int64](0)}
	to := unbuffered{io.Discard}
	if out != nil {
		to.Writer = out
	}
	if !tty {
		o.Stderr = io.Discard
		if errOut != nil {
			o.Stderr = errOut
		}
	}
	source := logfile.Source{Path: a.path, Watcher: &a.server.files, Ended: a.server.ended(ctx, a.target, run)}
	if err := logfile.Copy(ctx, source, o, to); err != nil && !errors.Is(err, context.Canceled) {
		return fmt.Errorf("%s: %w", a.match.Object, err)
	}
	return nil
}

// unbuffered is the output of a stream, which sends each write at once.
type unbuffered struct{ io.Writer }

// Flush implements logfile.Output.
func (unbuffered) Flush() {}
