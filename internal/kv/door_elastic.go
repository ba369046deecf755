package kv

import (
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"sync/atomic"
)

// elasticDoor is what ranks of an elastic job ask for besides.
type elasticDoor struct {
	door    *Door
	elastic Elastic
}

// placeKey is where a request's context has what its token stands for, to be changed.
type placeKey struct{}

// park waits for the next epoch. The token stands for the rank that its holder has there from then on.
func (e elasticDoor) park(w http.ResponseWriter, r *http.Request, _ JobInfo) {
	text, ok := body(w, r, MaxKey)
	if !ok {
		return
	}
	var ask struct {
		Left *int `json:"left"`
	}
	if err := json.Unmarshal(text, &ask); err != nil || ask.Left == nil || *ask.Left < 0 {
		http.Error(w, `want {"left": the number of an epoch, or 0}`, http.StatusBadRequest)
		return
	}
	info, err := e.elastic.Park(r.Context(), *ask.Left)
	switch {
	case errors.Is(err, ErrAborted):
		e.door.gone(w)
	case err != nil:
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
	default:
		if place, is := r.Context().Value(placeKey{}).(*atomic.Pointer[JobInfo]); is {
			place.Store(&info)
		}
		writeJSON(w, info)
	}
}

func (e elasticDoor) joined(w http.ResponseWriter, r *http.Request, rank JobInfo) {
	e.elastic.Joined(rank.Epoch)
	w.WriteHeader(http.StatusNoContent)
}

// interrupt waits until the rank is to leave the epoch that it names, and tells which that is.
func (e elasticDoor) interrupt(w http.ResponseWriter, r *http.Request, _ JobInfo) {
	epoch, err := strconv.Atoi(r.URL.Query().Get("epoch"))
	if err != nil {
		http.Error(w, "epoch must be a number", http.StatusBadRequest)
		return
	}
	select {
	case <-e.elastic.Interrupted(epoch):
		writeJSON(w, struct {
			Epoch int `json:"epoch"`
		}{epoch})
	case <-r.Context().Done():
	}
}
