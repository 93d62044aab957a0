package kubeconfig

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Target is the kubeconfig a user works with: the files kubectl would read, and the one it would write.
type Target struct {
	// Files are read in this order; for an entry of the same name the first one wins.
	Files []string
	// Path is where new entries go.
	Path string
}

// Find follows kubectl's rules: the flag, else $KUBECONFIG (a list), else ~/.kube/config.
// Of a list the first file that exists is written, and if none does, the last.
func Find(flag string, getenv func(string) string) (Target, error) {
	if flag != "" {
		return newTarget([]string{flag})
	}
	var files []string
	for _, f := range filepath.SplitList(getenv("KUBECONFIG")) {
		if f != "" && !slices.Contains(files, f) {
			files = append(files, f)
		}
	}
	if len(files) == 0 {
		home := getenv("HOME")
		if home == "" {
			return Target{}, errors.New("no place for the kubeconfig: HOME is not set; pass --kubeconfig FILE or set KUBECONFIG")
		}
		files = []string{filepath.Join(home, clientcmd.RecommendedHomeDir, clientcmd.RecommendedFileName)}
	}
	return newTarget(files)
}

func newTarget(files []string) (Target, error) {
	t := Target{}
	for _, f := range files {
		abs, err := filepath.Abs(f)
		if err != nil {
			return Target{}, err
		}
		t.Files = append(t.Files, abs)
	}
	t.Path = t.Files[len(t.Files)-1]
	for _, f := range t.Files {
		if _, err := os.Stat(f); err == nil {
			t.Path = f
			break
		}
	}
	return t, nil
}

// Check finds out before a cluster is started whether Merge could work after it: every file of the list parses,
// the name is free, and the directory accepts a new file.
func (t Target) Check(name string) error {
	unlock, err := lockAll(t.Path)
	if err != nil {
		return err
	}
	defer unlock()
	_, err = t.read(name)
	return err
}

// read loads all files and sees that nobody else owns the name.
func (t Target) read(name string) (map[string]*document, error) {
	docs := map[string]*document{}
	for _, f := range t.Files {
		d, _, err := readDocument(f)
		if err != nil {
			return nil, fmt.Errorf("%w; mend it, or pass --kubeconfig with another file", err)
		}
		for _, s := range sections {
			item := d.item(s.list, name)
			if item == nil {
				continue
			}
			if _, ours := readMark(field(item, s.body)); !ours {
				return nil, fmt.Errorf("kubeconfig %s has a %s %q that rehearse did not make; choose another --name",
					f, s.body, name)
			}
		}
		docs[f] = d
	}
	return docs, nil
}

// Merge puts the one cluster, user and context of c, all called name, into the kubeconfig and makes the
// context the current one. Entries of ours that an earlier run left behind are replaced.
func (t Target) Merge(name string, c *clientcmdapi.Config) error {
	if err := t.clearOthers(name); err != nil {
		return err
	}
	unlock, err := lockAll(t.Path)
	if err != nil {
		return err
	}
	defer unlock()
	docs, err := t.read(name)
	if err != nil {
		return err
	}
	_, statErr := os.Stat(t.Path)
	d := docs[t.Path]
	old := t.take(d, name) // what a killed cluster left
	m := mark{Created: old.Created || errors.Is(statErr, os.ErrNotExist), Previous: effectiveContext(t.Files, docs)}
	if err := putEntries(d, name, c, m); err != nil {
		return err
	}
	d.setCurrentContext(name)
	return store(t.Path, d, name)
}

// clearOthers removes entries of ours from the files that are only read: in an earlier file they would hide the new
// ones. Only a file that holds some is touched, because the others may well be somebody's read-only ones.
func (t Target) clearOthers(name string) error {
	docs, err := t.read(name)
	if err != nil {
		return err
	}
	for _, f := range t.Files {
		if f != t.Path && docs[f].item("clusters", name) != nil {
			if err := (Target{Files: t.Files, Path: f}).Remove(name, ""); err != nil {
				return err
			}
		}
	}
	return nil
}

// effectiveContext is the current context as kubectl sees it: the first file that sets one wins.
func effectiveContext(files []string, docs map[string]*document) string {
	for _, f := range files {
		if c := docs[f].currentContext(); c != "" {
			return c
		}
	}
	return ""
}

// putEntries lets client-go write the entries and carries them over as YAML.
func putEntries(d *document, name string, c *clientcmdapi.Config, m mark) error {
	data, err := clientcmd.Write(*c)
	if err != nil {
		return err
	}
	from, err := parseDocument(data)
	if err != nil {
		return err
	}
	for _, s := range sections {
		item := from.item(s.list, name)
		if item == nil {
			return fmt.Errorf("the cluster's kubeconfig has no %s %q", s.body, name)
		}
		if s.list == "contexts" {
			writeMark(field(item, s.body), m)
		} else {
			writeMark(field(item, s.body), mark{})
		}
		d.put(s.list, item)
	}
	return nil
}

func dropEntries(d *document, name string) {
	for _, s := range sections {
		if item := d.item(s.list, name); item != nil {
			if _, ours := readMark(field(item, s.body)); ours {
				d.drop(s.list, name)
			}
		}
	}
}

// Remove takes the entries called name out again. It does nothing when they lead to another server: then a later
// cluster of that name has taken them over. The current context goes back to what it was, if it is still ours.
func (t Target) Remove(name, server string) error {
	if _, err := os.Stat(t.Path); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	unlock, err := lockAll(t.Path)
	if err != nil {
		return err
	}
	defer unlock()
	d, existed, err := readDocument(t.Path)
	if err != nil || !existed {
		return err
	}
	cluster := field(d.item("clusters", name), "cluster")
	if url := field(cluster, "server"); url != nil && server != "" && url.Value != server {
		return nil
	}
	m := t.take(d, name)
	if m.Created && !bequeath(d) && d.blank() {
		return os.Remove(t.Path)
	}
	return store(t.Path, d, name)
}

// take removes our entries of that name from a document and gives what they remembered. The current context goes
// back, and whoever came after this one will go back to what was before it.
func (t Target) take(d *document, name string) mark {
	var gone mark
	if ctx := d.item("contexts", name); ctx != nil {
		gone, _ = readMark(field(ctx, "context"))
	}
	dropEntries(d, name)
	if d.currentContext() == name && d.item("contexts", name) == nil {
		d.setCurrentContext(t.stillThere(d, gone.Previous))
	}
	eachOfOurs(d, func(m mark) (mark, bool) {
		if m.Previous == name {
			m.Previous = gone.Previous
		}
		return m, true
	})
	return gone
}

// bequeath hands the duty to remove a file that we created to another context of ours, if there is one.
func bequeath(d *document) (heir bool) {
	eachOfOurs(d, func(m mark) (mark, bool) {
		heir = true
		m.Created = true
		return m, false
	})
	return heir
}

// eachOfOurs rewrites the marks of our contexts, until change says that it is enough.
func eachOfOurs(d *document, change func(mark) (next mark, more bool)) {
	for _, item := range d.items("contexts") {
		body := field(item, "context")
		m, ours := readMark(body)
		if !ours {
			continue
		}
		next, more := change(m)
		if next != m {
			writeMark(body, next)
		}
		if !more {
			return
		}
	}
}

// stillThere is name if a context of that name can be found in any of the files, and nothing otherwise.
func (t Target) stillThere(d *document, name string) string {
	if d.item("contexts", name) != nil {
		return name
	}
	for _, f := range t.Files {
		other, _, err := readDocument(f)
		if f != t.Path && err == nil && other.item("contexts", name) != nil {
			// That file is not ours to lead: without a current context here, its own holds again.
			return unlessSet(other, name)
		}
	}
	return ""
}

// unlessSet leaves the word to the other file when that one says the same already.
func unlessSet(other *document, name string) string {
	if other.currentContext() == name {
		return ""
	}
	return name
}

// store writes a document if it differs from what is in the file, after seeing that a reader of the new bytes
// finds everybody else's entries as they were.
func store(path string, d *document, name string) error {
	old, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	oldConfig, err := clientcmd.Load(old)
	if err != nil {
		return err
	}
	data, err := d.encode()
	if err != nil {
		return err
	}
	newConfig, err := clientcmd.Load(data)
	if err != nil {
		return fmt.Errorf("kubeconfig %s: the new text would not be readable, so nothing was written: %s", path, oneLine(err))
	}
	same := reflect.DeepEqual(others(oldConfig, ""), others(newConfig, ""))
	if same || bytes.Equal(old, data) {
		return nil
	}
	if !reflect.DeepEqual(others(oldConfig, name), others(newConfig, name)) {
		return fmt.Errorf("kubeconfig %s: entries other than %q would change, so nothing was written", path, name)
	}
	return replaceFile(path, data)
}

// others is a config without the entries called name; with a name, also without what we may change elsewhere:
// the current context and the marks of our other entries.
func others(c *clientcmdapi.Config, name string) *clientcmdapi.Config {
	c = c.DeepCopy()
	if name == "" {
		return c
	}
	c.CurrentContext = ""
	delete(c.Clusters, name)
	delete(c.Contexts, name)
	delete(c.AuthInfos, name)
	for _, ctx := range c.Contexts {
		delete(ctx.Extensions, markName)
	}
	return c
}
