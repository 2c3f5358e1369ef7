"""What magis does, shown on a real training run: `python -m magis.demo.train_bert`."""
