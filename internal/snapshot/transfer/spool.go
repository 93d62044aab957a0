package transfer

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/rehearse-k8s/rehearse/internal/snapshot"
)

// spool is a temporary file with objects, which only its owner can read. Objects are added concurrently, then read in order.
type spool struct {
	mu     sync.Mutex
	file   *os.File
	w      *bufio.Writer
	buffer []byte
	n      int
}

func newSpool() (*spool, error) {
	f, err := os.CreateTemp("", "rehearse-restore-") // mode 0600
	if err != nil {
		return nil, err
	}
	_ = os.Remove(f.Name()) // the open file stays usable where the system allows that; elsewhere close removes it
	return &spool{file: f, w: bufio.NewWriterSize(f, 1<<16)}, nil
}

// add appends an object.
func (s *spool) add(obj map[string]any) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	data, err := snapshot.AppendJSON(append(s.buffer[:0], 0, 0, 0, 0), obj)
	if err != nil {
		return err
	}
	s.buffer = data
	binary.LittleEndian.PutUint32(data, uint32(len(data)-4))
	s.n++
	_, err = s.w.Write(data)
	return err
}

// each calls f with each object, in the order of add, until f returns an error.
func (s *spool) each(f func(*unstructured.Unstructured) error) error {
	if err := s.w.Flush(); err != nil {
		return err
	}
	if _, err := s.file.Seek(0, io.SeekStart); err != nil {
		return err
	}
	r := bufio.NewReaderSize(s.file, 1<<16)
	var size [4]byte
	var data []byte
	for {
		if _, err := io.ReadFull(r, size[:]); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if n := int(binary.LittleEndian.Uint32(size[:])); n <= cap(data) {
			data = data[:n]
		} else {
			data = make([]byte, n)
		}
		if _, err := io.ReadFull(r, data); err != nil {
			return err
		}
		doc, err := snapshot.Decode(data)
		if err != nil {
			return err
		}
		if err := f(&unstructured.Unstructured{Object: doc}); err != nil {
			return err
		}
	}
}

// close removes the file.
func (s *spool) close() {
	_ = s.file.Close()
	_ = os.Remove(s.file.Name())
}
