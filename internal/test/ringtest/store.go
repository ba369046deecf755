package ringtest

import (
	"context"
	"io"
	"net/http"
	"time"
)

func (d *Door) servePut(w http.ResponseWriter, r *http.Request) {
	if _, ok := d.rank(w, r); !ok {
		return
	}
	value, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20))
	if err == nil {
		err = d.store.Put(r.PathValue("key"), value)
	}
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

func (d *Door) serveGet(w http.ResponseWriter, r *http.Request) {
	if _, ok := d.rank(w, r); !ok {
		return
	}
	patience, _ := time.ParseDuration(r.URL.Query().Get("wait")) // none without one
	ctx, cancel := context.WithTimeout(r.Context(), patience)
	defer cancel()
	value, found := d.store.Get(ctx, r.PathValue("key"))
	if !found {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	_, _ = w.Write(value) // the client may be gone
}
