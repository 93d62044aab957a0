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
	"github.com/rehearse-k8s/rehearse/internal/snapshot"
	"github.com/rehearse-k8s/rehearse/internal/version"
	"github.com/rehearse-k8s/rehearse/stage"
)

// session is one cluster from the claim of its name to the removal of its files.
type session struct {
	a      *app
	o      *upOptions
	files  kubeconfig.Target
	dir    *statedir.Dir
	record statedir.Record
	log    *logFile
	logger *slog.Logger
	c      Running

	restoring bool // the restore of --from has begun, and the cluster has not become ready
	abandoned bool // the configuration of a failed cluster could not be kept: its files stay, for a later command
}

// openSession claims the name, removes what a killed cluster of that name left, and opens the log.
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
		a.removeContext(*stale)
	}
	s := &session{a: a, o: o, files: files, dir: dir, record: statedir.Self(name, a.Now())}
	err = dir.Wipe()
	if err == nil {
		s.log, err = createLog(root.LogPath(name))
	}
	if err == nil {
		err = dir.WriteConfig(o.effective)
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

// checkContext rejects a context of the same name whose cluster runs. If the name is free in this state directory, the cluster is that of another
// one, such as of a job with its own HOME, and both share the kubeconfig: its user would lose the context. own is the server of this cluster, if it runs.
func checkContext(ctx context.Context, files kubeconfig.Target, cluster, own string) error {
	name := target.ContextName(cluster)
	if server, file := files.Running(ctx, name, own); server != "" {
		return fmt.Errorf("kubeconfig %s has the context %q of a running cluster (%s) of another state directory; stop that cluster, or use another name or kubeconfig",
			file, name, server)
	}
	return nil
}

// catchFatal reports on stderr that the Kubernetes code in this process called klog.Fatal, which otherwise is only a line in
// the log file.
func (s *session) catchFatal() {
	klog.OsExit = func(int) {
		s.a.Say("rehearse: cluster %q: the Kubernetes code terminated the process (log: %s)", s.record.Name, s.log.Name())
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
		partial := s.restoring && s.o.cluster.DataDir != ""
		if ctx.Err() != nil {
			if partial {
				s.a.Say("Interrupted: the data directory %s may contain a part of the snapshot; remove it before you use --from again.", s.o.cluster.DataDir)
			}
			return console.ErrInterrupted
		}
		s.logger.Error("start cluster", "err", err)
		if partial {
			err = fmt.Errorf("%w; the data directory %s contains the cluster without the rest of the snapshot: remove it before you use --from again", err, s.o.cluster.DataDir)
		}
		if damaged := (*snapshot.FormatError)(nil); errors.As(err, &damaged) {
			return &console.InconclusiveError{Message: err.Error()}
		}
		return err
	}
	s.c = c
	return nil
}

// publish writes the record for this user's other commands, then the kubeconfig. In this order, a kill in between leaves a
// record of what has to be removed.
func (s *session) publish(ctx context.Context) error {
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
	if dir := s.o.cluster.DataDir; dir != "" {
		r.DataDir = absolutePaths([]string{dir})[0]
	}
	r.Stages = absolutePaths(s.o.cluster.StageFiles)
	r.StageSums = statedir.Checksums(r.Stages)
	r.Version = version.Get().Version
	if err := s.dir.Save(*r); err != nil {
		return fmt.Errorf("state directory: %w", err)
	}
	if err := checkContext(ctx, s.files, r.Name, r.URL); err != nil { // another one may have become ready meanwhile
		return err
	}
	if err := s.files.Merge(r.Context, config); err != nil {
		return err
	}
	return s.a.forgetStopped(r.Name)
}

// wait returns when the user interrupts the command, or when the cluster fails.
func (s *session) wait(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return console.ErrInterrupted
	case <-s.c.Done():
		err := s.c.Err()
		if err == nil {
			err = errors.New("unknown reason")
		}
		s.logger.Error("the cluster failed", "err", err)
		return fmt.Errorf("cluster %q failed: %w (log: %s)%s", s.record.Name, err, s.log.Name(), s.keepFailed())
	}
}

// keepFailed keeps the configuration of a cluster that failed, such as one whose disk is full, and returns how to start it again: its data directory
// has its objects. Of a cluster without a data directory, nothing is kept.
func (s *session) keepFailed() (again string) {
	if s.o.cluster.DataDir == "" {
		return ""
	}
	root, err := statedir.DefaultRoot(s.a.Getenv)
	if err == nil {
		_, err = s.a.keep(root, s.record.Name, true)
	}
	if err != nil {
		s.abandoned = true
		return fmt.Sprintf("; its configuration could not be kept now (%v): 'rehearse start %s' tries it again", err, s.record.Name)
	}
	return "; start it again: rehearse start " + s.record.Name
}

// withdraw removes the kubeconfig entries, then stops the cluster. In this order, a second Ctrl-C during the stop leaves only
// the state directory.
func (s *session) withdraw() {
	if err := s.files.Remove(target.ContextName(s.record.Name), s.c.URL()); err != nil {
		s.a.Say("rehearse: %s", console.Message(err))
	}
	p := s.a.NewProgress()
	p.Show("Stopping cluster %q ... (Ctrl-C again kills it)", s.record.Name)
	s.c.Stop()
	p.Clear()
}

// close releases the name. The log of a cluster that failed is kept.
func (s *session) close(err error) {
	failed := err != nil && !errors.Is(err, console.ErrInterrupted)
	_ = s.log.Close()
	if s.abandoned {
		_ = s.dir.Abandon()
		return
	}
	if err := s.dir.Release(failed); err != nil {
		s.a.Say("rehearse: state directory: %s", console.Message(err))
	}
	if s.c != nil && !failed {
		s.a.Say("Cluster %q has stopped.", s.record.Name)
	}
}

// removeContext removes what a killed cluster left in a kubeconfig. It reports an error and continues: an unreadable
// kubeconfig must not prevent the user from listing clusters.
func (a *app) removeContext(r statedir.Record) {
	t := kubeconfig.Target{Files: r.KubeconfigFiles, Path: r.KubeconfigPath}
	if r.PID == 0 { // its record is corrupt: look where kubectl does
		var err error
		if t, err = kubeconfig.Find("", a.Getenv); err != nil {
			return
		}
	}
	if t.Path == "" {
		return // it was killed before it wrote one
	}
	if err := t.Remove(target.ContextName(r.Name), r.URL); err != nil {
		a.Say("rehearse: cluster %q was killed; remove its context: %s", r.Name, console.Message(err))
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

// absolutePaths are paths, such as those of --stages, for a reader in another directory.
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
