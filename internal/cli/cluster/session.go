package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"

	"github.com/rehearse-k8s/rehearse/internal/cli/console"
	"github.com/rehearse-k8s/rehearse/internal/cli/kubeconfig"
	"github.com/rehearse-k8s/rehearse/internal/cli/statedir"
	"github.com/rehearse-k8s/rehearse/internal/cli/target"
	"github.com/rehearse-k8s/rehearse/internal/version"
	"github.com/rehearse-k8s/rehearse/stage"
)

// session is one cluster from the claim of its name to the removal of its traces.
type session struct {
	a      *app
	o      *upOptions
	files  kubeconfig.Target
	dir    *statedir.Dir
	record statedir.Record
	log    *logFile
	logger *slog.Logger
	c      Running
}

// openSession claims the name, clears up behind a dead holder, and opens the log.
func (a *app) openSession(o *upOptions, files kubeconfig.Target) (*session, error) {
	root, err := statedir.DefaultRoot(a.Getenv)
	if err != nil {
		return nil, err
	}
	name := o.cluster.Name
	dir, stale, err := root.Claim(name)
	if err != nil {
		return nil, err
	}
	if stale != nil {
		a.mend(*stale)
	}
	s := &session{a: a, o: o, files: files, dir: dir, record: statedir.Self(name, a.Now())}
	err = dir.Wipe()
	if err == nil {
		s.log, err = createLog(root.LogPath(name))
	}
	if err == nil {
		err = dir.Save(s.record)
	}
	if err != nil {
		_ = dir.Release(false)
		return nil, fmt.Errorf("state directory: %w", err)
	}
	if a.Err == os.Stderr {
		a.Err = divertStderr(s.log.File)
	}
	s.logger = o.log.SetUp(s.log, a.Err)
	s.catchFatal()
	return s, nil
}

// catchFatal makes the end visible when the Kubernetes code in this process calls klog.Fatal, which would
// otherwise be a line in a file that nobody looks at.
func (s *session) catchFatal() {
	klog.OsExit = func(int) {
		s.a.Say("rehearse: cluster %q: the Kubernetes code ended the process; see %s", s.record.Name, s.log.Name())
		s.a.Exit(console.ExitFailed)
	}
}

// launch starts the cluster.
func (s *session) launch(ctx context.Context) error {
	p := s.a.NewProgress()
	if s.o.log.Verbosity > 0 {
		p.Disable()
	}
	p.Show("Starting cluster %q ...", s.record.Name)
	defer p.Clear()
	c, err := s.a.start(ctx, s.clusterOptions())
	if err != nil {
		if ctx.Err() != nil {
			return console.ErrInterrupted
		}
		s.logger.Error("the cluster did not start", "err", err)
		return err
	}
	s.c = c
	return nil
}

// publish makes the cluster known: to this user's other commands first, so that a kill in between leaves a record
// of what has to be removed, then to kubectl.
func (s *session) publish() error {
	config := s.c.Kubeconfig()
	data, err := clientcmd.Write(*config)
	if err != nil {
		return err
	}
	if err := s.dir.WriteKubeconfig(data); err != nil {
		return fmt.Errorf("state directory: %w", err)
	}
	r := &s.record
	r.Status = statedir.Running
	r.URL = s.c.URL()
	r.Context = target.ContextName(r.Name)
	r.KubeconfigFiles = s.files.Files
	r.KubeconfigPath = s.files.Path
	r.DataDir = s.o.cluster.DataDir
	r.Stages = absolutePaths(s.o.cluster.StageFiles)
	r.StageSums = statedir.Checksums(r.Stages)
	r.Version = version.Get().Version
	if err := s.dir.Save(*r); err != nil {
		return fmt.Errorf("state directory: %w", err)
	}
	return s.files.Merge(r.Context, config)
}

// wait ends with the user's wish, or with the cluster's own failure.
func (s *session) wait(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return console.ErrInterrupted
	case <-s.c.Done():
		err := s.c.Err()
		if err == nil {
			err = errors.New("no reason was given")
		}
		s.logger.Error("the cluster ended by itself", "err", err)
		return fmt.Errorf("cluster %q ended by itself: %w (log: %s)", s.record.Name, err, s.log.Name())
	}
}

// withdraw takes the entries out of the kubeconfig, then stops the cluster: in this order a second Ctrl-C during
// the stop leaves only our own directory behind.
func (s *session) withdraw() {
	if err := s.files.Remove(target.ContextName(s.record.Name), s.c.URL()); err != nil {
		s.a.Say("rehearse: %s", console.Message(err))
	}
	p := s.a.NewProgress()
	p.Show("Stopping cluster %q ... (Ctrl-C again ends it at once)", s.record.Name)
	s.c.Stop()
	p.Clear()
}

// close gives the name back. The log of a cluster that failed stays.
func (s *session) close(err error) {
	failed := err != nil && !errors.Is(err, console.ErrInterrupted)
	_ = s.log.Close()
	if err := s.dir.Release(failed); err != nil {
		s.a.Say("rehearse: state directory: %s", console.Message(err))
	}
	if s.c != nil && !failed {
		s.a.Say("Cluster %q has ended.", s.record.Name)
	}
}

// mend removes what a cluster that was killed left in a kubeconfig. It complains and goes on: a kubeconfig that cannot be
// read must not keep anyone from listing clusters.
func (a *app) mend(r statedir.Record) {
	t := kubeconfig.Target{Files: r.KubeconfigFiles, Path: r.KubeconfigPath}
	if r.PID == 0 { // its record was damaged: look where kubectl would
		var err error
		if t, err = kubeconfig.Find("", a.Getenv); err != nil {
			return
		}
	}
	if t.Path == "" {
		return // it never came as far as to write one
	}
	if err := t.Remove(target.ContextName(r.Name), r.URL); err != nil {
		a.Say("rehearse: cluster %q was killed; its context could not be removed: %s", r.Name, console.Message(err))
	}
}

// divertStderr sends what this process writes to os.Stderr from now on to the log, and returns the stream that the user
// reads. Etcd's client, for one, took its own reference to os.Stderr when it was initialized, and writes there in JSON what
// a command says in one line. A panic still reaches the user: the runtime writes to the file descriptor.
func divertStderr(log *os.File) *os.File {
	user := *os.Stderr
	*os.Stderr = *log
	return &user
}

// absolutePaths are the files of --stages for a reader in another directory.
func absolutePaths(files []string) []string {
	out := slices.Clone(files)
	for i, name := range out {
		if strings.HasPrefix(name, stage.BuiltinPrefix) {
			continue
		}
		if path, err := filepath.Abs(name); err == nil {
			out[i] = path
		}
	}
	return out
}
