"""The words of Holdfast: frozen typed values that every part shares. Imports nothing of ours."""
