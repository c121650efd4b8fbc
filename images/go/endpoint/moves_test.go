package endpoint

import (
	"context"
	"net"
	"testing"
	"time"
)

var mover = Stack{Name: "s", Moves: []string{Migrate}}

func TestMovesAreReadAsTheContractSays(t *testing.T) {
	moves, err := mover.parseMoves("0.2,migrate,193.167.1.100,fd00::1;7,migrate,193.167.0.100,")
	if err != nil {
		t.Fatal(err)
	}
	if moves[0].At != 200*time.Millisecond || moves[1].At != 7*time.Second {
		t.Fatal(moves)
	}
	six := &net.UDPAddr{IP: net.ParseIP("2001:db8::1")}
	if address, err := moves[0].Address(six); err != nil || address.IP.String() != "fd00::1" {
		t.Fatal(address, err)
	}
	if _, err := moves[1].Address(six); err == nil {
		t.Fatal("an address of the other family was taken")
	}
}

func TestMovesThatAreWrongAreRefused(t *testing.T) {
	for _, text := range []string{
		"", "0.2,migrate,193.167.1.100", "soon,migrate,193.167.1.100,", "-1,migrate,193.167.1.100,",
		"NaN,migrate,193.167.1.100,", "0.2,walk,193.167.1.100,", "0.2,interface,193.167.1.100,", "0.2,migrate,193.167.1,",
		"0.2,migrate,,", "0.2,migrate,193.167.1.100,;0.2,migrate,193.167.0.100,",
	} {
		if _, err := mover.parseMoves(text); err == nil {
			t.Errorf("%q was taken", text)
		}
	}
}

func TestMovesAreMadeInTimeAndAfterTheHandshake(t *testing.T) {
	moves, err := mover.parseMoves("0.02,migrate,127.0.0.1,;0.06,migrate,127.0.0.2,;60,migrate,127.0.0.3,")
	if err != nil {
		t.Fatal(err)
	}
	j := &Journey{stack: mover, left: moves}
	j.Begin()
	handshake := make(chan struct{})
	time.AfterFunc(40*time.Millisecond, func() { close(handshake) })
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	var made []time.Duration
	err = j.Travel(ctx, handshake, func(_ context.Context, next Move, tell func(net.Addr)) error {
		if made = append(made, time.Since(j.zero)); len(made) == 2 {
			stop()
		}
		tell(&net.UDPAddr{})
		return nil
	})
	if err != nil || len(made) != 2 || made[0] < 40*time.Millisecond || made[1] < 60*time.Millisecond {
		t.Fatal(err, made)
	}
	if address, err := j.Address(&net.UDPAddr{IP: net.ParseIP("127.0.0.9")}); err != nil || address.IP.String() != "127.0.0.2" {
		t.Fatal(address, err)
	}
}
