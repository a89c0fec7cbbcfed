"""The demo: Sereno at work for a minute in a playground of its own, every story checked against the playground's books."""
