package endpoint

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// How a client changes its address.
const (
	Migrate   = "migrate"   // it probes the path from the new one, and switches once that is validated (RFC 9000 §9)
	Interface = "interface" // it leaves the old one at once, without probing
)

// Move is one change of the client's address.
type Move struct {
	At  time.Duration // after the client's first datagram
	How string

	ipv4, ipv6 netip.Addr
}

// Address is the one from which a peer is reached after the move.
func (m Move) Address(peer *net.UDPAddr) (*net.UDPAddr, error) {
	address := m.ipv6
	if peer.IP.To4() != nil {
		address = m.ipv4
	}
	if !address.IsValid() {
		return nil, fmt.Errorf("MOVES: no address at %v s from which to reach %v", m.At.Seconds(), peer.IP)
	}
	return net.UDPAddrFromAddrPort(netip.AddrPortFrom(address, 0)), nil
}

// Journey is what is left of a client's moves, over all of its connections.
type Journey struct {
	stack Stack
	left  []Move
	last  *Move     // the one that it made last
	zero  time.Time // when its first datagram left
}

// OpenJourney reads the moves from the environment: MOVES=AT,HOW,ADDRESS4,ADDRESS6[;AT,HOW,…], with AT in seconds. An
// address of a family that nobody uses may be left empty.
func (s Stack) OpenJourney() (*Journey, error) {
	text := os.Getenv("MOVES")
	if text == "" {
		return &Journey{stack: s}, nil
	}
	moves, err := s.parseMoves(text)
	if err != nil {
		return nil, fmt.Errorf("MOVES: %w", err)
	}
	return &Journey{stack: s, left: moves}, nil
}

func (s Stack) parseMoves(text string) ([]Move, error) {
	var moves []Move
	for _, entry := range strings.Split(text, ";") {
		move, err := s.parseMove(entry)
		if err != nil {
			return nil, fmt.Errorf("%q: %w", entry, err)
		}
		if len(moves) > 0 && move.At <= moves[len(moves)-1].At {
			return nil, fmt.Errorf("%q is not later than the move before it", entry)
		}
		moves = append(moves, move)
	}
	return moves, nil
}

func (s Stack) parseMove(entry string) (Move, error) {
	fields := strings.Split(entry, ",")
	if len(fields) != 4 {
		return Move{}, errors.New("is not AT,HOW,ADDRESS4,ADDRESS6")
	}
	seconds, err := strconv.ParseFloat(fields[0], 64)
	if err != nil || !(seconds >= 0 && seconds < 1e6) {
		return Move{}, errors.New("does not begin with a time in seconds")
	}
	move := Move{At: time.Duration(seconds * float64(time.Second)), How: fields[1]}
	if move.How != Migrate && move.How != Interface {
		return Move{}, fmt.Errorf("%s is neither migrate nor interface", move.How)
	}
	if !slices.Contains(s.Moves, move.How) {
		return Move{}, fmt.Errorf("this program cannot move by %s", move.How)
	}
	for index, address := range []*netip.Addr{&move.ipv4, &move.ipv6} {
		if word := fields[2+index]; word != "" {
			if *address, err = netip.ParseAddr(word); err != nil {
				return Move{}, err
			}
		}
	}
	if !move.ipv4.IsValid() && !move.ipv6.IsValid() {
		return Move{}, errors.New("has no address")
	}
	return move, nil
}

// Begin is to be called when a connection's first datagram leaves. The first one's starts the clock.
func (j *Journey) Begin() {
	if j.zero.IsZero() {
		j.zero = time.Now()
	}
}

// Address is the one that a connection begins at, nil if that is the system's choice. Moves whose time came while
// there was no connection are behind it.
func (j *Journey) Address(peer *net.UDPAddr) (*net.UDPAddr, error) {
	for len(j.left) > 0 && !j.zero.IsZero() && time.Since(j.zero) >= j.left[0].At {
		j.last, j.left = &j.left[0], j.left[1:]
	}
	if j.last == nil {
		return nil, nil
	}
	return j.last.Address(peer)
}

// Travel makes the moves as their time comes, or once the handshake is over. What it is given makes one: it calls
// tell with the new address once the move is under way, and returns when the context is done at the latest, since the
// next move is due then or nobody waits any more.
func (j *Journey) Travel(
	ctx context.Context, handshake <-chan struct{}, move func(ctx context.Context, next Move, tell func(net.Addr)) error,
) error {
	for len(j.left) > 0 {
		next := j.left[0]
		// Whoever comes here late comes from a handshake.
		due, reason := j.zero.Add(next.At), ""
		if j.last == nil && time.Now().After(due) {
			reason = ", as soon as the handshake was over"
		}
		select {
		case <-time.After(time.Until(due)):
		case <-ctx.Done():
			return nil
		}
		select {
		case <-handshake:
		default:
			reason = ", as soon as the handshake was over"
			select {
			case <-handshake:
			case <-ctx.Done():
				return nil
			}
		}
		j.last, j.left = &next, j.left[1:]
		limited, stop := ctx, context.CancelFunc(func() {})
		if len(j.left) > 0 {
			limited, stop = context.WithDeadline(ctx, j.zero.Add(j.left[0].At))
		}
		err := move(limited, next, func(local net.Addr) {
			j.stack.Tell("%s at %.6f s to %v, told to at %v s%s",
				next.How, time.Since(j.zero).Seconds(), local, next.At.Seconds(), reason)
		})
		stop()
		if err != nil {
			return err
		}
	}
	return nil
}

// End tells which moves were not made. It is to be called when the client is done.
func (j *Journey) End() {
	for _, left := range j.left {
		j.stack.Tell("no %s at %v s: the client was done before", left.How, left.At.Seconds())
	}
}
