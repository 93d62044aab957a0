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

// Target is the kubeconfig of a user: the files that kubectl reads, and the one that it writes.
type Target struct {
	// Files are read in this order; for an entry of the same name the first one wins.
	Files []string
	// Path is the file for new entries.
	Path string
}

// Find returns the target by kubectl's rules: the flag, else $KUBECONFIG (a list), else ~/.kube/config. In a list, the
// first file that exists is written; if none exists, the last.
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
			return Target{}, errors.New("find the kubeconfig: HOME is not set; pass --kubeconfig FILE or set KUBECONFIG")
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

// Check checks before the start of a cluster that Merge can succeed: every file of the list parses, the name is free, and
// the directory is writable.
func (t Target) Check(name string) error {
	unlock, err := lockAll(t.Path)
	if err != nil {
		return err
	}
	defer unlock()
	_, err = t.read(name)
	return err
}

// read loads all files and checks that no entry of that name is without our mark.
func (t Target) read(name string) (map[string]*document, error) {
	docs := map[string]*document{}
	for _, f := range t.Files {
		d, _, err := readDocument(f)
		if err != nil {
			return nil, fmt.Errorf("%w; repair it, or pass --kubeconfig with another file", err)
		}
		for _, s := range sections {
			item := d.item(s.list, name)
			if item == nil {
				continue
			}
			if _, ours := readMark(field(item, s.body)); !ours {
				return nil, fmt.Errorf("kubeconfig %s has a %s %q that rehearse did not create; choose another --name",
					f, s.body, name)
			}
		}
		docs[f] = d
	}
	return docs, nil
}

// Merge adds the cluster, user and context of c, all called name, to the kubeconfig and makes the context the current one.
// Marked entries that an earlier run left are replaced.
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
	old := t.take(d, name) // entries that a killed cluster left
	m := mark{Created: old.Created || errors.Is(statErr, os.ErrNotExist), Previous: effectiveContext(t.Files, docs)}
	if err := putEntries(d, name, c, m); err != nil {
		return err
	}
	d.setCurrentContext(name)
	return store(t.Path, d, name)
}

// clearOthers removes marked entries from the files that are only read: in an earlier file they would hide the new ones.
// Only a file that has such entries is written, because the others may be read-only.
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

// effectiveContext is the current context that kubectl uses: that of the first file that sets one.
func effectiveContext(files []string, docs map[string]*document) string {
	for _, f := range files {
		if c := docs[f].currentContext(); c != "" {
			return c
		}
	}
	return ""
}

// putEntries encodes the entries with client-go and copies them as YAML.
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

// Remove removes the marked entries called name. It does nothing if they have another server: then they belong to a later
// cluster of that name. If the removed context is the current one, the previous one is restored.
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
	if m.Created && !transferFileOwnership(d) && d.blank() {
		return os.Remove(t.Path)
	}
	return store(t.Path, d, name)
}

// take removes the marked entries of that name from a document and returns their mark. It restores the previous current
// context, also in the marks of contexts that were added later.
func (t Target) take(d *document, name string) mark {
	var removed mark
	if ctx := d.item("contexts", name); ctx != nil {
		removed, _ = readMark(field(ctx, "context"))
	}
	dropEntries(d, name)
	if d.currentContext() == name && d.item("contexts", name) == nil {
		d.setCurrentContext(t.ifExists(d, removed.Previous))
	}
	eachOfOurs(d, func(m mark) (mark, bool) {
		if m.Previous == name {
			m.Previous = removed.Previous
		}
		return m, true
	})
	return removed
}

// transferFileOwnership marks another of our contexts, if there is one, as the creator of the file, so that its removal
// also removes the file.
func transferFileOwnership(d *document) (transferred bool) {
	eachOfOurs(d, func(m mark) (mark, bool) {
		transferred = true
		m.Created = true
		return m, false
	})
	return transferred
}

// eachOfOurs rewrites the marks of our contexts until change returns more == false.
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

// ifExists returns name if any of the files has a context of that name, else "".
func (t Target) ifExists(d *document, name string) string {
	if d.item("contexts", name) != nil {
		return name
	}
	for _, f := range t.Files {
		other, _, err := readDocument(f)
		if f != t.Path && err == nil && other.item("contexts", name) != nil {
			// Without a current context in this file, that of the other file is effective.
			return unlessSet(other, name)
		}
	}
	return ""
}

// unlessSet returns "" if the other file already sets this current context.
func unlessSet(other *document, name string) string {
	if other.currentContext() == name {
		return ""
	}
	return name
}

// store writes a document if it differs from the file, after checking that all other entries stay the same.
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
		return fmt.Errorf("kubeconfig %s was not changed: the new contents cannot be parsed: %s", path, oneLine(err))
	}
	same := reflect.DeepEqual(others(oldConfig, ""), others(newConfig, ""))
	if same || bytes.Equal(old, data) {
		return nil
	}
	if !reflect.DeepEqual(others(oldConfig, name), others(newConfig, name)) {
		return fmt.Errorf("kubeconfig %s was not changed: entries other than %q would change", path, name)
	}
	return replaceFile(path, data)
}

// others is a config without the entries called name; with a name, also without the other parts that we may change: the
// current context and the marks of our other entries.
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
